"""PTX, cubin, entries and resources of successful compilations, compile options, and the disk cache."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.compile_requests import KERNEL, compiled

from gpuemu_lsp.engine.compile import ptxas
from gpuemu_lsp.engine.compile.cache import DiskCache, key_of
from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest, ResourceUsage
from gpuemu_lsp.engine.compile.options import read_options
from gpuemu_lsp.engine.compile.program import NvrtcOutput
from gpuemu_lsp.engine.compile.toolchain import toolchain
from gpuemu_lsp.engine.findings import Place, Range

SHARED = (
    "__global__ void reduce(const float* x, float* y) {\n  __shared__ float s[256];\n"
    "  s[threadIdx.x] = x[threadIdx.x];\n"
    "  __syncthreads();\n  if (threadIdx.x == 0) y[0] = s[0] + s[255];\n}\n"
)
SPILLING = (
    "__global__ void __launch_bounds__(1024, 2) spill(float* x, int n) {\n  float a[64];\n  #pragma unroll\n"
    "  for (int i = 0; i < 64; ++i) a[i] = x[i * n];\n  for (int j = 0; j < n; ++j) {\n    #pragma unroll\n"
    "    for (int i = 0; i < 64; ++i) a[i] = a[i] * a[(i + 1) % 64] + j;\n  }\n  #pragma unroll\n"
    "  for (int i = 0; i < 64; ++i) x[i * n] = a[i];\n}\n"
)


def test_ptx_cubin_entries_and_lines_of_one_compilation(tmp_path):
    text = (
        "template <class T, int N> __global__ void t(T* x) { x[N] = 1; }\n"
        'extern "C" __global__ void c(int* x) { *x = 1; }\n'
    )
    result = compiled(text, tmp_path, expressions=("t<float, 4>", "c"))
    artifact = result.artifact
    assert artifact.entries == {"t<float, 4>": "_Z1tIfLi4EEvPT_", "c": "c"}
    assert set(artifact.resources) == set(artifact.entries.values())
    assert artifact.cubin[:4] == b"\x7fELF"
    assert ".loc\t1 1" in artifact.ptx
    assert artifact.toolchain == toolchain()
    assert toolchain().startswith("NVRTC 1")


def test_kernels_with_the_name_of_a_cuda_function_are_found(tmp_path):
    text = "__global__ void norm(float* x) { x[0] = 1; }\n__global__ void max(int* x) { *x = 1; }\n"
    result = compiled(text, tmp_path, expressions=("norm", "max"))
    assert result.findings == ()
    assert result.artifact.entries == {"norm": "_Z4normPf", "max": "_Z3maxPi"}


def test_a_cuda_function_is_not_a_kernel(tmp_path):
    result = compiled(KERNEL, tmp_path, expressions=("norm", "k"))
    assert [finding.rule for finding in result.findings] == ["compile/missing-entry"]
    assert set(result.artifact.entries) == {"k"}


def test_the_cubin_is_a_complete_elf_file(tmp_path):
    cubin = compiled(KERNEL, tmp_path).artifact.cubin
    headers_at, size, count = (
        int.from_bytes(cubin[40:48], "little"),
        int.from_bytes(cubin[58:60], "little"),
        int.from_bytes(cubin[60:62], "little"),
    )
    segments_at, segment, segments = (
        int.from_bytes(cubin[32:40], "little"),
        int.from_bytes(cubin[54:56], "little"),
        int.from_bytes(cubin[56:58], "little"),
    )
    assert max(headers_at + size * count, segments_at + segment * segments) <= len(cubin)


def test_resources_are_from_the_ptxas_report(tmp_path):
    usage = compiled(SHARED, tmp_path).artifact.resources["_Z6reducePKfPf"]
    assert (usage.static_shared_bytes, usage.barriers, usage.spill_stores) == (1024, 1, 0)
    assert 4 <= usage.registers <= 32
    spilled = compiled(SPILLING, tmp_path).artifact.resources["_Z5spillPfi"]
    assert spilled.registers <= 32
    assert spilled.spill_stores > 0
    assert spilled.spill_loads > 0
    assert spilled.stack_bytes > 0


PTX = """
.func  (.param .b32 func_retval0) helper(.param .b32 helper_param_0)
{
\tret;
}
.visible .entry k(.param .u64 k_param_0)
{
\tcall.uni (retval0), helper, (param0);
}
"""
REPORTS = {
    "CUDA 12.9": (
        "ptxas info    : 0 bytes gmem, 8 bytes cmem[4]\n"
        "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     960 bytes stack frame, 1248 bytes spill stores, 1568 bytes spill loads\n"
        "ptxas info    : Used 32 registers, used 2 barriers, 960 bytes cumulative stack size, 80 bytes smem,"
        " 372 bytes cmem[0], 8 bytes cmem[2]\n",
        ResourceUsage(32, 1248, 1568, 960, 80, 380, 2),
    ),
    "CUDA 11 and older": (
        "ptxas info    : Compiling entry function 'k' for 'sm_70'\n"
        "ptxas info    : Function properties for k\n"
        "    0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n"
        "ptxas info    : Used 18 registers, 4096+16 bytes smem, 356 bytes cmem[0]\n",
        ResourceUsage(18, 0, 0, 0, 4112, 356, 0),
    ),
    "a device function that is not inlined": (
        "ptxas info    : Compiling entry function 'k' for 'sm_80'\n"
        "ptxas info    : Function properties for k\n"
        "ptxas         .     16 bytes stack frame, 4 bytes spill stores, 4 bytes spill loads\n"
        "ptxas info    : Function properties for helper\n"
        "ptxas         .     64 bytes stack frame, 8 bytes spill stores, 8 bytes spill loads\n"
        "ptxas info    : Used 40 registers, used 0 barriers, 80 bytes cumulative stack size, 360 bytes cmem[0]\n",
        ResourceUsage(40, 12, 12, 80, 0, 360, 0),
    ),
}


@pytest.mark.parametrize(("log", "usage"), REPORTS.values(), ids=REPORTS)
def test_report_formats(log, usage):
    assert ptxas.resources(log, PTX) == {"k": usage}


def test_spills_of_called_functions_count_for_their_callers(tmp_path):
    text = (
        "__device__ int fib(int n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }\n"
        "__global__ void calls(int* x) { x[0] = fib(x[1]); }\n__global__ void leaf(int* x) { x[0] = 1; }\n"
    )
    usage = compiled(text, tmp_path).artifact.resources
    assert (usage["_Z4leafPi"].stack_bytes, usage["_Z4leafPi"].spill_loads) == (0, 0)
    assert usage["_Z5callsPi"].stack_bytes > 0
    assert usage["_Z5callsPi"].spill_stores > 0


def test_unoptimised_ptx_has_lines_and_calls(tmp_path):
    text = "__device__ int twice(int x) { return 2 * x; }\n__global__ void k(int* x) {\n  x[0] = twice(x[1]);\n}\n"
    fast, slow = compiled(text, tmp_path).artifact.ptx, compiled(text, tmp_path, optimize=False).artifact.ptx
    assert "call" in slow
    assert "call" not in fast
    assert ".loc\t1 3" in slow
    assert compiled(text, tmp_path, optimize=False).findings == ()


def test_nvcc_options_are_accepted(tmp_path):
    options = (
        "-O3", "--use_fast_math", "-Xcompiler", "-fPIC", "-arch=sm_90", "-gencode", "arch=compute_80,code=sm_80",
        "--expt-relaxed-constexpr", "-std=c++14", "-DSCALE=2.0f", "-I", "/usr/include", "-lineinfo", "-Xptxas=-v",
        "-lcublas", "-maxrregcount", "40", "-Wno-deprecated-gpu-targets", "--ptxas-options=-O3",
    )  # fmt: skip
    text = "__global__ void k(float* x) { x[0] = expf(x[1]) * SCALE; }\n"
    result = compiled(text, tmp_path, options=options)
    assert result.findings == ()
    assert "ex2.approx.ftz" in result.artifact.ptx
    assert ".target sm_80" in result.artifact.ptx


READ = {
    "spelled three ways": (("-DA=1", "-D", "B", "--define-macro=C"), ("-DA=1", "-DB", "-DC"), ()),
    "one string": (("-DA=1 -I inc -O2",), ("-DA=1",), ("/base/inc",)),
    "folders": (("-Iinc", "-I", "/abs", "--include-path=../up", "-isystem", "sys"), (),
                ("/base/inc", "/abs", "/base/../up", "/base/sys")),
    "numbers": (("--maxrregcount=32", "-ftz=true", "-fmad=false"),
                ("--maxrregcount=32", "-ftz=true", "-fmad=false"), ()),
    "ptxas": (("-Xptxas", "-v,-dlcm=ca", "--ptxas-options=-O1"),
              ("--ptxas-options=-dlcm=ca", "--ptxas-options=-O1"), ()),
    "host only": (("-O3", "-Wall", "-fopenmp", "-Xcompiler=-Wall", "-ccbin", "g++", "-o", "x", "-t", "4", "-lfoo"),
                  (), ()),
}  # fmt: skip


@pytest.mark.parametrize(("words", "passed", "folders"), READ.values(), ids=READ)
def test_options_are_translated(words, passed, folders):
    found = read_options(words, "/base")
    assert (found.passed, found.include_dirs) == (passed, folders)


@pytest.mark.parametrize(("option", "rule"), [("-dlto", "config/bad-value"), ("--nonsense", "config/bad-value")])
def test_invalid_options_are_located_at_their_key(option, rule, tmp_path):
    place = Place(str(tmp_path / "gpuemu.toml"), Range.of(3, 18, 3, 30))
    result = compiled(KERNEL, tmp_path, options=(option,), options_place=place)
    assert result.artifact is None
    assert [(item.rule, item.place) for item in result.findings] == [(rule, place)]
    assert option in result.findings[0].message


def test_include_options_are_relative_to_the_configuration(tmp_path):
    (tmp_path / "inc").mkdir()
    (tmp_path / "inc" / "seven.h").write_text("#define SEVEN 7\n")
    place = Place(str(tmp_path / "gpuemu.toml"), Range.of(3, 18, 3, 30))
    text = "#include <seven.h>\n__global__ void k(float* x) { x[0] = SEVEN; }\n"
    path = tmp_path / "deep" / "kernel.cu"
    assert compiled(text, tmp_path, path=path, options=("-Iinc",), options_place=place).findings == ()


# ---- the cache ----------------------------------------------------------------------------------


def test_a_cached_compilation_has_the_same_findings(tmp_path):
    cache = DiskCache(tmp_path / "cache")
    request = CompileRequest(
        str(tmp_path / "k.cu"), "__global__ void k(float* x) { int u; x[0] = 1; }\n", expressions=("k",)
    )
    first = compile_source(request, cache)
    (entry,) = (tmp_path / "cache").iterdir()
    marked = entry.read_bytes()
    second = compile_source(request, cache)
    assert second.artifact == first.artifact
    assert second.findings == first.findings != ()
    assert entry.read_bytes() == marked


@pytest.mark.parametrize(
    "damage",
    [
        lambda raw: b"",
        lambda raw: raw[:-1],
        lambda raw: raw[:200] + b"X" + raw[201:],
        lambda raw: b"[]\n" + raw,
        lambda raw: b"\xff" * 99,
    ],
    ids=["empty", "cut", "flipped", "other json", "noise"],
)  # fmt: skip
def test_a_damaged_entry_is_ignored_and_replaced(damage, tmp_path):
    cache = DiskCache(tmp_path / "cache")
    request = CompileRequest(str(tmp_path / "k.cu"), KERNEL)
    good = compile_source(request, cache)
    (entry,) = (tmp_path / "cache").iterdir()
    entry.write_bytes(damage(entry.read_bytes()))
    assert cache.load(entry.name) is None
    assert compile_source(request, cache).artifact == good.artifact
    assert cache.load(entry.name) is not None


def test_every_input_is_part_of_the_key(tmp_path):
    cache = DiskCache(tmp_path / "cache")
    base = CompileRequest(str(tmp_path / "k.cu"), '#include "h.h"\n' + KERNEL, headers={str(tmp_path / "h.h"): "\n"})
    variants = [
        {},
        {"text": '#include "h.h"\n' + KERNEL + "\n"},
        {"arch": "sm_90"},
        {"options": ("-DA=1",)},
        {"optimize": False},
        {"expressions": ("k",)},
        {"headers": {str(tmp_path / "h.h"): "#define N 1\n"}},
        {"path": str(tmp_path / "other.cu")},
    ]
    for changed in variants:
        fields = {name: getattr(base, name) for name in ("path", "text", "arch", "headers")} | changed
        compile_source(CompileRequest(**fields), cache)
    assert len(list((tmp_path / "cache").iterdir())) == len(variants)


def test_failures_are_not_cached(tmp_path):
    cache = DiskCache(tmp_path / "cache")
    assert (
        compile_source(CompileRequest(str(tmp_path / "k.cu"), "__global__ void k() { nope; }"), cache).artifact is None
    )
    assert not (tmp_path / "cache").exists()


def test_the_cache_evicts_its_oldest_entries(tmp_path):
    cache = DiskCache(tmp_path, limit_bytes=40_000)
    for number in range(130):
        cache.store(key_of((str(number),)), NvrtcOutput(True, "", "x" * 1000))
    assert sum(path.stat().st_size for path in tmp_path.iterdir()) < 120_000
    assert cache.load(key_of(("129",))) is not None
    assert cache.load(key_of(("0",))) is None


def test_an_unusable_directory_is_not_an_error(tmp_path):
    (tmp_path / "file").write_text("")
    cache = DiskCache(tmp_path / "file" / "cache")
    cache.store("a" * 40, NvrtcOutput(True, "", "x"))
    assert cache.load("a" * 40) is None


def test_keys_of_different_lists_differ():
    assert len({key_of(("a", "b")), key_of(("ab",)), key_of(("a", "b", "")), key_of(("a,b",))}) == 4


def test_format_of_an_entry(tmp_path):
    DiskCache(tmp_path).store("k" * 40, NvrtcOutput(True, "log", "ptx", b"\x7fELF\0", {"k": "_Z1k"}))
    head, _, body = (Path(tmp_path) / ("k" * 40)).read_bytes().partition(b"\n")
    assert json.loads(head)["lowered"] == {"k": "_Z1k"}
    assert body == b"logptx\x7fELF\0"

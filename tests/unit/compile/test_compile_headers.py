"""Headers: the user's, their device views, CUDA's, the standard library's, and missing ones."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from support.compile_requests import KERNEL, compiled, covered, spans

from gpuemu_lsp.engine.compile.include_closure import scan_directives, user_includes
from gpuemu_lsp.engine.compile.toolchain import cuda_include_dirs


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "inc" / "sub").mkdir(parents=True)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "common.h").write_text('#pragma once\n#include "../inc/sub/deep.h"\n#include <stdio.h>\n')
    (tmp_path / "inc" / "sub" / "deep.h").write_text(
        "#pragma once\n#include <other.h>\nint broken() { return nope; }\n"
    )
    (tmp_path / "inc" / "other.h").write_text("#pragma once\n__device__ float twice(float x) { return x * 2; }\n")
    return tmp_path


SOURCE = '#include "common.h"\n#include "other.h"\n__global__ void k(float* x) { x[0] = twice(x[1]); }\n'


def test_an_error_in_a_header_is_located_there_with_the_include_as_related(tree):
    path = tree / "src" / "kernel.cu"
    result = compiled(SOURCE, tree, path=path, include_dirs=(str(tree / "inc"),))
    (error,) = result.findings
    assert error.place.path == str(tree / "inc" / "sub" / "deep.h")
    assert (error.place.range.start.line, error.message) == (2, 'identifier "nope" is undefined')
    assert [(item.place.path, item.place.range.start.line) for item in error.related] == [
        (str(tree / "src" / "common.h"), 1),
        (str(tree / "src" / "kernel.cu"), 0),
    ]


def test_a_view_replaces_the_header_under_its_real_path(tree):
    deep = str(tree / "inc" / "sub" / "deep.h")
    view = "#pragma once\n#include <other.h>\n                            \n"
    path = tree / "src" / "kernel.cu"
    result = compiled(SOURCE, tree, path=path, include_dirs=(str(tree / "inc"),), headers={deep: view})
    assert result.findings == ()
    assert f'"{path}"' in result.artifact.ptx
    assert f'"{tree / "inc" / "other.h"}"' in result.artifact.ptx
    assert "mirror" not in result.artifact.ptx
    assert set(result.include_closure) == {str(tree / "src" / "common.h"), deep, str(tree / "inc" / "other.h")}


def test_headers_need_not_be_on_disk(tmp_path):
    header = str(tmp_path / "made.h")
    text = '#include "made.h"\n__global__ void k(float* x) { x[0] = seven; }\n'
    assert compiled(text, tmp_path, headers={header: "constexpr int seven = 7;\n"}).findings == ()
    (error,) = compiled(text, tmp_path, headers={header: "constexpr int seven = eight;\n"}).findings
    assert (error.place.path, error.place.range.start.column) == (header, 22)


def test_a_removed_header_is_missing(tmp_path):
    header = str(tmp_path / "made.h")
    text = '  #include "made.h"\n' + KERNEL
    assert compiled(text, tmp_path, headers={header: "\n"}).findings == ()
    result = compiled(text, tmp_path)
    assert spans(result.findings) == [("compile/missing-header", 0, 11, 19)]
    assert result.findings[0].data["header"] == "made.h"


def test_a_computed_include_is_resolved(tmp_path):
    (tmp_path / "odd.h").write_text("__device__ int f() { return nope; }\n")
    result = compiled('#define HEADER "odd.h"\n#include HEADER\n' + KERNEL, tmp_path)
    assert [(item.place.path, item.message) for item in result.findings] == [
        (str(tmp_path / "odd.h"), 'identifier "nope" is undefined')
    ]


def test_the_guide_example_compiles_unchanged(tmp_path):
    (tmp_path / "kernel_math.h").write_text(
        "#pragma once\n#include <math.h>\n"
        "inline float gelu_forward(float x) {\n"
        "  return 0.5f * x * (1.0f + tanhf(0.7978845608f * (x + 0.044715f * x * x * x)));\n}\n"
    )
    text = (
        '#include "kernel_math.h"\n#include <cuda_runtime.h>\n'
        'extern "C" __global__ void gelu(const float* x, float* y, int n) {\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n  if (i < n) y[i] = gelu_forward(x[i]);\n}\n"
    )
    result = compiled(text, tmp_path, expressions=("gelu",))
    assert (result.findings, result.artifact.entries) == ((), {"gelu": "gelu"})


CUDA = """cuda.h cuda_runtime.h device_launch_parameters.h cuda_fp16.h cuda_bf16.h cuda_fp8.h mma.h cuda_pipeline.h
cuComplex.h math_constants.h"""
STANDARD = "stdio.h stdlib.h stdint.h math.h float.h limits.h assert.h string.h vector iostream algorithm"


@pytest.mark.parametrize("header", [*CUDA.split(), *STANDARD.split()])
def test_common_headers_compile(header, tmp_path):
    result = compiled(f"#include <{header}>\n" + KERNEL, tmp_path)
    assert (result.findings, result.artifact is not None) == ((), True)


PRELUDE_USES = {
    "fixed width": "int64_t a = INT64_MAX; uint32_t b = UINT32_MAX; uintptr_t c = 1; std::uint8_t d = 3;"
    " x[0] = a + b + c + d;",
    "size_t": "std::size_t m = sizeof(size_t); uint u = 3; x[0] = m + u;",
    "floats": "x[0] = INFINITY; x[1] = NAN; x[2] = M_PI; x[3] = FLT_MAX + DBL_EPSILON; x[4] = HUGE_VALF;",
    "constant expressions": "constexpr float inf = INFINITY; x[0] = -inf;",
    "integers": "x[0] = INT_MAX; x[1] = CHAR_BIT; x[2] = UINT_MAX; x[3] = LLONG_MIN;",
    "std::min and max": "x[0] = std::min(1, 2) + std::max<float>(x[1], 2);"
    " int a = 1, b = 2; std::swap(a, b); x[1] = a;",
    "std math": "x[0] = std::sqrt(x[1]) + std::exp(x[2]) + std::abs(x[3]) + std::pow(x[0], 2.0f) + std::isnan(x[1]);",
    "limits": "x[0] = std::numeric_limits<float>::max(); x[1] = std::numeric_limits<int>::lowest();"
    " x[2] = -std::numeric_limits<float>::infinity(); static_assert(std::numeric_limits<short>::min() == -32768);"
    " static_assert(std::numeric_limits<unsigned>::max() == 0xffffffffu);"
    " static_assert(std::numeric_limits<bool>::max());",
    "traits": "static_assert(std::is_same<int, int>::value && !std::is_same_v<int, float>);"
    " static_assert(std::is_integral_v<const unsigned char> && std::is_floating_point<double>::value);"
    " static_assert(std::is_same_v<std::conditional_t<true, int, float>, int>); x[0] = 1;"
    " static_assert(std::is_same_v<std::decay_t<const int&>, int> && std::is_unsigned_v<size_t>);"
    " static_assert(std::conjunction_v<std::is_pointer<int*>, std::is_void<void>> && !std::disjunction_v<>);",
    "sequences": "static_assert(std::is_same_v<std::make_index_sequence<5>, std::index_sequence<0, 1, 2, 3, 4>>);"
    " x[0] = 1;",
    "math of integers": "x[0] = sqrt(n) + floor(n / 2) + pow(2, n) + std::log2(n) + exp(1) + ceil(2u);",
    "math of mixed arguments": "x[0] = pow(x[1], 2.0) + fmax(0.0, x[2]) + fmod(x[3], 2.0) + atan2(n, x[1]) + fmin(n, 3);",
    "math keeps single precision": "static_assert(std::is_same_v<decltype(fmax(x[0], x[1])), float>);"
    " static_assert(std::is_same_v<decltype(pow(x[0], 2.0)), double>); x[0] = std::sqrtf(x[1]);",
    "lists": "x[0] = std::max({1, 2, 3}) + std::min({n, 2});",
    "the host's macros": "\n#if !defined(__linux__) || !defined(__GNUC__) || !defined(__NVCC__)\n#error host\n#endif\nx[0] = 1;",
    "C++20 without a configured standard": "struct P { int a, b; }; P p = {.a = 1, .b = 2}; x[0] = p.a + p.b;",
    "array and pair": "std::array<float, 3> a{1, 2, 3}; auto p = std::make_pair(1, 2.0f); x[0] = a[1] + p.second;",
    "functional": "x[0] = std::plus<float>()(x[1], 2) + std::greater<>()(1, 2);",
    "printf and assert": 'assert(x != nullptr); printf("%d\\n", 3); x[0] = 1;',
    "int128": "__int128 a = 3; x[0] = (float)(a * 2);",
    "memcpy": "float a[2] = {1, 2}; memcpy(x, a, sizeof(a));",
}


@pytest.mark.parametrize("body", PRELUDE_USES.values(), ids=PRELUDE_USES)
def test_the_prelude_declares_what_nvcc_declares(body, tmp_path):
    result = compiled(f"__global__ void k(float* x, int n) {{ {body} }}\n", tmp_path)
    assert (result.findings, result.artifact is not None) == ((), True)


def test_the_prelude_leaves_nothing_in_the_ptx(tmp_path):
    ptx = compiled(KERNEL, tmp_path).artifact.ptx
    assert ".global" not in ptx.replace("st.global", "").replace("to.global", "")
    assert "std" not in ptx


@pytest.mark.parametrize(
    "text",
    [
        "#include <cooperative_groups.h>\nnamespace cg = cooperative_groups;\n"
        "__global__ void k(float* x) {\n"
        "  cg::thread_block b = cg::this_thread_block(); b.sync(); x[b.thread_rank()] = 1; }\n",
        "#include <cub/cub.cuh>\n__global__ void k(float* x) { typedef cub::BlockReduce<float, 128> R;\n"
        " __shared__ typename R::TempStorage t; float s = R(t).Sum(x[threadIdx.x]); if (!threadIdx.x) x[0] = s; }\n",
    ],
    ids=["cooperative groups", "cub"],
)
def test_precompiled_headers_do_not_change_the_ptx(text, tmp_path):
    first, _, second = (compiled(text, tmp_path) for _ in range(3))
    assert (first.findings, second.findings) == ((), ())
    assert first.artifact.ptx == second.artifact.ptx


def test_an_error_inside_a_cuda_header_is_one_finding_on_the_include(tmp_path):
    text = "#include <cuda_fp16.h>\n  #include <mma.h>\n#include <thrust/device_vector.h>\n" + KERNEL
    result = compiled(text, tmp_path)
    assert result.artifact is None
    assert [covered(text, item) for item in result.findings] == ["<thrust/device_vector.h>"]


def test_cuda_headers_come_from_the_installed_wheels():
    # An installed toolkit, if there is one, is searched last.
    folders = [folder for folder in cuda_include_dirs() if not folder.startswith("/usr/local/cuda")]
    assert cuda_include_dirs()[: len(folders)] == tuple(folders)
    assert all("nvidia" in folder for folder in folders)


def test_mixed_64_bit_integers_as_under_nvcc(tmp_path):
    """With CUDA's headers ``uint64_t`` and ``size_t`` are distinct types; under nvcc they are one."""
    body = "uint64_t a = x[0]; size_t b = n; x[1] = min(a, b) + max(b, a) + std::min(a, b) + std::max(b, a);"
    for include in ("", "#include <cuda_pipeline.h>\n"):
        text = f"{include}__global__ void k(float* x, int64_t n) {{ {body} }}\n#ifndef FLT_MAX\n#error no prelude\n#endif\n"
        assert compiled(text, tmp_path).findings == ()


def test_include_ranges_are_in_bytes():
    found = scan_directives(
        '#ifndef G\n#define G\n  #  include "日.h"\n#if X\n#include <a/b.h>\n#endif\n#endif\n#include M\n'
    )
    assert [(item.target, item.quoted, item.unconditional) for item in found.includes] == [
        ("日.h", True, True),
        ("a/b.h", False, False),
    ]
    assert (found.includes[0].range.start.column, found.includes[0].range.end.column) == (13, 20)
    assert (found.computed, found.macros) == (True, {"G"})


def test_circular_includes(tmp_path):
    (tmp_path / "a.h").write_text('#include "b.h"\n')
    (tmp_path / "b.h").write_text('#include "a.h"\n')
    path = str(tmp_path / "kernel.cu")
    found = user_includes(path, '#include "a.h"\n', (), {})
    assert list(found.texts) == [path, str(tmp_path / "a.h"), str(tmp_path / "b.h")]


def test_predefined_limits_of_the_host_compiler(tmp_path):
    text = "__global__ void k(float* x) { x[0] = -__FLT_MAX__; x[1] = __INT_MAX__; x[2] = __DBL_EPSILON__; }\n"
    assert compiled(text, tmp_path).findings == ()


def test_headers_are_precompiled_below_a_long_temporary_folder(tmp_path):
    """NVRTC writes no precompiled header below a long path, and then every file pays for the costly headers."""
    folder = tmp_path / ("t" * 120)
    folder.mkdir()
    program = (
        "from gpuemu_lsp.engine.compile.compiler import warm_up\n"
        "from gpuemu_lsp.engine.compile.scratch import scratch\n"
        "list(warm_up())\n"
        "assert scratch().prefixes and all(scratch().prefixes.values()), scratch()\n"
        "from gpuemu_lsp.engine.compile.compiler import compile_source\n"
        "from gpuemu_lsp.engine.compile.model import CompileRequest\n"
        "for text in ('', '#include <cuda_fp16.h>\\n'):\n"
        "    result = compile_source(CompileRequest('/k.cu', text + '__global__ void k(int* x) { *x = 1; }'))\n"
        "    assert result.artifact is not None, result.findings\n"
    )
    subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "TMPDIR": str(folder), "GPUEMU_CACHE_DIR": str(tmp_path)},
        check=True,
        timeout=120,
    )

"""Required and forbidden patterns: instructions, functions, intrinsics, macros and source text."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.lint_artifacts import findings, shown, spec_of

from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import CompileRequest
from gpuemu_lsp.engine.lint import lint as lint_entry
from gpuemu_lsp.engine.project.model import ArtifactChecks
from gpuemu_lsp.engine.source import read

LOOSE = {"max_registers": 255, "max_spills": 1 << 20, "max_local_memory": 1 << 20}

KERNEL = r"""#include <assert.h>
#include <stdio.h>
// printf in a comment, __ldg(x) too
#define CHECK(c) assert(c)
#define LOG(...) printf(__VA_ARGS__)
#define HALF_OF(x) __fdividef(x, 2.0f)
__device__ __forceinline__ float gelu_forward(float x) { return 0.5f * x * (1.f + tanhf(x)); }
template <class T> __device__ T warp_sum(T v) {
  for (int o = 16; o; o /= 2) v += __shfl_down_sync(0xffffffff, v, o);
  return v;
}
__device__ __noinline__ float slow(float x) { return x / 3.1f; }
namespace nn { __device__ float relu(float x) { return fmaxf(x, 0.f); } }
__device__ float unused(float x) { return __expf(x); }
template <typename T, bool LOGGING> __global__ void fused(const T* x, T* y, int n) {
  __shared__ float s[32];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  const char* msg = "atomicAdd(x) and __ldg";
  float v = 0;
  if (i < n) v = gelu_forward(x[i]);
  v = warp_sum(v);
  CHECK(i >= 0 && n < 100000);
  if constexpr (LOGGING) { LOG("%f\n", v); }
  if (false) v = unused(v);
#if 0
  long q = 1; __threadfence();
#endif
#ifdef UNDEFINED_MACRO
  short r = 1;
#else
  unsigned u = n;
#endif
  s[threadIdx.x % 32] = v;
  __syncthreads();
  v = nn::relu(s[0]) +
      slow(v) + HALF_OF(v) + u;
  if (i < n) y[i] = v;
}
int main() { printf("host"); return 0; }
"""

# pattern -> 1-based lines where it is reported if forbidden, and the text under the first range
FOUND = {
    "fma.rn.f32": ([7], None),
    "fma": ([7], None),
    "shfl.sync": ([9], None),
    "shfl.sync.down": ([9], None),
    "ld.global": ([20], None),
    "div.rn.f32": ([12], None),
    "div.rn": ([12], None),
    "bar.sync": ([34], "__syncthreads();"),
    "st.shared.*": ([33], None),
    "gelu_forward": ([20], "gelu_forward"),
    "gelu_forward()": ([20], "gelu_forward"),
    "gelu_forward<float>": ([20], "gelu_forward"),
    "_Z12gelu_forwardf": ([20], None),
    "warp_sum": ([21], "warp_sum"),
    "relu": ([35], "relu"),
    "nn::relu": ([35], "relu"),
    "slow": ([36], "slow"),
    "_Z4slowf": ([36], None),
    "tanhf": ([7], "tanhf"),
    "__syncthreads": ([34], "__syncthreads"),
    "__shfl_down_sync": ([9], "__shfl_down_sync"),
    "assert": ([22], "CHECK"),
    "CHECK": ([22], "CHECK"),
    "__fdividef": ([36], "HALF_OF"),
    "__shared__": ([16], "__shared__"),
    "unsigned": ([31], "unsigned"),
    "%tid.x": ([17], None),
}

NOT_FOUND = [
    "printf", "atomicAdd", "__ldg", "long", "short", "__threadfence", "div.full", "fused", "main",
    "__syncwarp", "__shfl_xor_sync", "ex2.approx.f64", "f64", "st.local", "mma.sync", "HALF", "rel", "gelu", "exp",
    "other::relu", "fma.rn.f64", "vote", "bar.sync.foo", "double", "s", "msg", "%clock64",
]  # fmt: skip


def lint(pattern: str, required: bool, expression: str = "fused<float, false>", text: str = KERNEL):
    patterns = {"required_patterns" if required else "forbidden_patterns": (pattern,)}
    return findings(text, ArtifactChecks(**LOOSE, **patterns), expression)


@pytest.mark.parametrize("pattern", FOUND)
def test_patterns_in_the_kernel(pattern: str) -> None:
    lines, text = FOUND[pattern]
    assert lint(pattern, required=True) == ()
    found = lint(pattern, required=False)
    assert {finding.rule for finding in found} == {"artifact/forbidden-pattern"}
    assert [finding.place.range.start.line + 1 for finding in found][: len(lines)] == lines
    if text is not None:
        assert shown(KERNEL, found[0].place) == text


@pytest.mark.parametrize("pattern", NOT_FOUND)
def test_patterns_not_in_the_kernel(pattern: str) -> None:
    assert lint(pattern, required=False) == ()
    (finding,) = lint(pattern, required=True)
    assert finding.rule == "artifact/required-pattern"
    assert shown(KERNEL, finding.place) == "fused"


@pytest.mark.parametrize("pattern", ["unused", "__expf"])
@pytest.mark.parametrize("required", [True, False])
def test_a_call_without_instructions_gives_no_finding(pattern: str, required: bool) -> None:
    assert lint(pattern, required) == ()


@pytest.mark.parametrize("pattern", ["fma.rn.f32", "relu", "slow"])
def test_every_line_is_reported_once(pattern: str) -> None:
    places = [finding.place for finding in lint(pattern, required=False)]
    assert len({place.range.start.line for place in places}) == len(places)


def test_forbidden_patterns_apply_to_each_instance() -> None:
    assert lint("printf", required=False, expression="fused<float, false>") == ()
    (finding,) = lint("printf", required=False, expression="fused<float, true>")
    assert shown(KERNEL, finding.place) == "LOG"


TWO_TYPES = (
    "#include <cuda_fp16.h>\ntemplate <typename T> __global__ void k(T* x) {\n  x[0] = x[1] * x[2] + x[3];\n"
    "  __syncthreads();\n  x[4] = x[0];\n}\n"
)


@pytest.mark.parametrize(
    ("pattern", "required", "counts"),
    [
        ("fma.rn.f32", True, (0, 0)),  # the other instance has it
        ("mul.f16", True, (0, 0)),
        ("fma.rn.f64", True, (1, 0)),  # reported once
        ("mul.f16", False, (0, 1)),
        ("fma.rn.f32", False, (1, 0)),
        ("__syncthreads", False, (1, 0)),  # the same line, reported once
    ],
)
def test_instances_share_required_patterns(pattern: str, required: bool, counts: tuple[int, int]) -> None:
    source = read("/kernels/two.cu", TWO_TYPES)
    request = CompileRequest("/kernels/two.cu", source.device_view, expressions=("k<float>", "k<__half>"))
    artifact = compile_source(request).artifact
    assert artifact is not None
    patterns = {"required_patterns" if required else "forbidden_patterns": (pattern,)}
    spec = spec_of(ArtifactChecks(**LOOSE, **patterns))
    found = [lint_entry(artifact, entry, spec, source) for entry in artifact.entries.values()]
    assert tuple(map(len, found)) == counts


def test_other_kernels_of_the_artifact_do_not_count() -> None:
    text = "__global__ void a(float* x) { x[0] = x[1] / x[2]; }\n__global__ void b(float* x) { x[0] = x[1]; }\n"
    source = read("/kernels/two.cu", text)
    artifact = compile_source(CompileRequest("/kernels/two.cu", source.device_view, expressions=("a", "b"))).artifact
    assert artifact is not None
    spec = spec_of(ArtifactChecks(**LOOSE, required_patterns=("div.rn",)))
    assert [len(lint_entry(artifact, artifact.entries[name], spec, source)) for name in "ab"] == [0, 1]


PREDICATED = (
    "__global__ void k(float* x, int n) {\n"
    '  asm volatile("{ .reg .pred p; setp.ne.s32 p, %1, 0; @p st.global.f32 [%0], 0f3F800000; }" :: "l"(x), "r"(n));\n}\n'
)


def test_predicated_instructions_match() -> None:
    (finding,) = lint("st.global", required=False, expression="k", text=PREDICATED)
    assert finding.place.range.start.line == 1
    assert "predicated" in finding.message


@pytest.mark.parametrize(
    ("options", "pattern", "present"),
    [
        (("--use_fast_math",), "fma.rn.f32", True),
        (("--use_fast_math",), "div.rn", False),
        ((), "div.rn", True),
        (("-DNDEBUG",), "assert", False),
        ((), "assert", True),
        (("-DTRACE",), "__threadfence", True),
        ((), "__threadfence", False),
    ],
)
def test_compile_options_affect_patterns(options: tuple[str, ...], pattern: str, present: bool) -> None:
    text = (
        "#include <assert.h>\n__global__ void k(float* x) {\n  assert(x[0] > 0);\n  x[1] = x[2] * x[3] + x[4] / x[5];\n"
        "#ifdef TRACE\n  __threadfence();\n#endif\n}\n"
    )
    for required in (True, False):
        key = "required_patterns" if required else "forbidden_patterns"
        found = findings(text, ArtifactChecks(**LOOSE, **{key: (pattern,)}), "k", options)
        assert bool(found) is (present is not required)


def test_functions_of_a_header(tmp_path: Path) -> None:
    header = "#pragma once\n\ninline float gelu_forward(float x) {\n  return x / (1.0f + x * x);\n}\n"
    text = (
        '#include "kernel_math.h"\n__global__ void fused(const float* x, float* y) {\n  y[0] = gelu_forward(x[0]);\n}\n'
    )
    (tmp_path / "kernel_math.h").write_text(header)
    path = (tmp_path / "fused.cu").as_posix()
    checks = ArtifactChecks(**LOOSE, forbidden_patterns=("gelu_forward", "div.rn.f32"))
    call, division = findings(text, checks, "fused", path=path)
    assert (call.place.path, shown(text, call.place)) == (path, "gelu_forward")
    assert division.place.path == (tmp_path / "kernel_math.h").as_posix()
    assert shown(header, division.place).startswith("return")


def test_a_kernel_in_a_header(tmp_path: Path) -> None:
    header = "template <typename T> __global__ void fused(T* x) {\n  __syncthreads();\n  x[0] = __ldg(x + 1);\n}\n"
    (tmp_path / "impl.cuh").write_text(header)
    path = (tmp_path / "fused.cu").as_posix()
    checks = ArtifactChecks(**LOOSE, required_patterns=("fma",), forbidden_patterns=("__syncthreads", "__ldg"))
    missing, barrier, load = findings('#include "impl.cuh"\n', checks, "fused<float>", path=path)
    assert {finding.place.path for finding in (missing, barrier, load)} == {(tmp_path / "impl.cuh").as_posix()}
    assert [shown(header, finding.place) for finding in (missing, barrier, load)] == ["fused", "__syncthreads", "__ldg"]


def test_barrier_of_cooperative_groups() -> None:
    text = (
        "#include <cooperative_groups.h>\n__global__ void k(float* x) {\n  auto b = cooperative_groups::this_thread_block();\n"
        "  x[1] = x[0];\n  b.sync();\n  x[2] = x[1];\n}\n"
    )
    (finding,) = lint("__syncthreads", required=False, expression="k", text=text)
    assert finding.place.range.start.line == 4
    assert lint("cooperative_groups::thread_block::sync", required=True, expression="k", text=text) == ()


def test_sass_instructions_are_not_checked() -> None:
    (finding,) = lint("HMMA", required=True)
    assert finding.rule == "engine/not-executed"
    (finding,) = lint("FFMA", required=False)
    assert finding.rule == "engine/not-executed"


def test_columns_of_text_outside_ascii() -> None:
    text = "__global__ void k(float* x) {\n  /* größer */ __syncthreads(); x[0] = x[1];\n}\n"
    (finding,) = lint("__syncthreads", required=False, expression="k", text=text)
    assert shown(text, finding.place) == "__syncthreads"

"""Slices of modules that NVRTC wrote, and identities that only an edit of the same code changes."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.compile.compiler import compile_source
from gpuemu_lsp.engine.compile.model import Artifact, CompileRequest
from gpuemu_lsp.engine.ptx import parse
from gpuemu_lsp.engine.ptx.normal_form import normalise_function
from gpuemu_lsp.engine.ptx.slicing import code_identity, module_text
from gpuemu_lsp.engine.ptx.traversal import reachable

TEXT = """\
static __device__ float table[4] = {1, 2, 3, 4};
namespace { __device__ int counter;
__device__ __noinline__ float helper(float v) { return v * table[1]; } }
// here
__device__ __forceinline__ float inlined(float v) {
  return v + 1.0f;
}
template <class T> __global__ void shared(T* x) {
  __shared__ T tile[32];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  x[threadIdx.x] = tile[31 - threadIdx.x];
}
__global__ void calls(float* x) { x[0] = helper(x[1]); atomicAdd(&counter, 1); printf("hello %d\\n", counter); }
__global__ void loops(float* x, int n) {
  float local[40];
  for (int i = 0; i < n; i++) local[i % 40] = inlined(x[i]);
  x[0] = local[n % 40];
  printf("bye %d\\n", n);
}
"""
KERNELS = ("shared<float>", "calls", "loops")


def compiled(text: str, optimize: bool = True) -> Artifact:
    artifact = compile_source(CompileRequest("/kernels/k.cu", text, expressions=KERNELS, optimize=optimize)).artifact
    assert artifact is not None
    return artifact


def identities(text: str, optimize: bool = True) -> dict[str, str]:
    artifact = compiled(text, optimize)
    module = module_text(artifact.ptx)
    return {name: code_identity(module.slice([entry]), [entry]) for name, entry in artifact.entries.items()}


@pytest.mark.parametrize("optimize", [True, False])
def test_a_slice_has_the_code_of_its_kernel_and_no_other(optimize: bool) -> None:
    artifact = compiled(TEXT, optimize)
    whole = parse(artifact.ptx)
    for entry in artifact.entries.values():
        part = parse(module_text(artifact.ptx).slice([entry]))
        assert [one.name for one in part.functions.values() if one.is_entry] == [entry]
        for one, other in zip(reachable(whole, entry), reachable(part, entry), strict=True):
            assert normalise_function(whole, one) == normalise_function(part, other)
            locations = [[getattr(item, "location", None) for item in it.body or ()] for it in (one, other)]
            assert locations[0] == locations[1]


def test_a_slice_has_the_variables_that_its_kernel_uses() -> None:
    artifact = compiled(TEXT)
    module = parse(module_text(artifact.ptx).slice([artifact.entries["calls"]]))
    names = [one.name for one in module.variables]
    assert any(name == "table" for name in names) and any("counter" in name for name in names)
    assert not parse(module_text(artifact.ptx).slice([artifact.entries["shared<float>"]])).variables


@pytest.mark.parametrize("optimize", [True, False])
@pytest.mark.parametrize(
    ("old", "new", "changed"),
    [
        ("// here\n", "// here\n\n/* and\n there */\n", set()),
        ("__global__ void calls(", "\n__global__\nvoid calls(", set()),
        ("v + 1.0f", "v + 2.0f", {"loops"}),
        ("{1, 2, 3, 4}", "{1, 2, 3, 5}", {"calls"}),
        ("bye", "see you", {"loops"}),
        ("tile[32]", "tile[64]", {"shared<float>"}),
        ("31 - threadIdx.x", "30 - threadIdx.x", {"shared<float>"}),
    ],
)
def test_the_identity_is_that_of_the_code(old: str, new: str, changed: set[str], optimize: bool) -> None:
    before, after = identities(TEXT, optimize), identities(TEXT.replace(old, new), optimize)
    assert {name for name in KERNELS if before[name] != after[name]} == changed


def test_an_added_kernel_changes_no_identity() -> None:
    # It shifts the numbers of labels, strings and local memory, and the names of internal namespaces.
    added = "__global__ void added(float* x) { float a[9]; for (int i = 0; i < 9; i++) a[i] = x[i * i];\n"
    added += 'x[0] = a[int(x[1])]; printf("first"); }\n'
    assert identities(TEXT.replace("// here\n", added)) == identities(TEXT)

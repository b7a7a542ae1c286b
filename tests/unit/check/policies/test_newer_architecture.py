"""Code for an architecture newer than the default, and errors that do not depend on it."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.prepare import prepare
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.cuda.newer_architecture import compiled_for_newer
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckOptions

CLUSTER = """\
#include <cooperative_groups.h>
__global__ void __cluster_dims__(2, 1, 1) k(const float* x, float* y) {
  cooperative_groups::this_cluster().sync();
  y[threadIdx.x] = x[threadIdx.x];
}
"""
ASSEMBLY = """\
__global__ void k(const float* x, float* y) {
  asm volatile("wgmma.fence.sync.aligned;" ::: "memory");
  y[threadIdx.x] = x[threadIdx.x];
}
"""
GUARDED = """\
#if __CUDA_ARCH__ < 900
#error "k needs sm_90"
#endif
__global__ void k(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
"""
REGISTERED = """\
[[kernels]]
name = "k"
source = "one.cu"

[kernels.args]
x = { in = [32] }
y = { out = [32] }
[kernels.launch]
grid = 2
block = 32
"""


def prepared(folder: Path, text: str, toml: str = "", arch: str | None = None) -> PreparedKernel:
    (folder / "one.cu").write_text(text)
    if toml:
        (folder / "gpuemu.toml").write_text(toml)
    (request,) = collect([] if toml else [str(folder / "one.cu")], CheckOptions(arch=arch), folder).requests
    return prepare(request)


def errors(result: PreparedKernel) -> list[str]:
    return [item.message for item in result.findings if item.rule == "compile/error"]


@pytest.mark.parametrize("text", [CLUSTER, ASSEMBLY, GUARDED], ids=["cluster", "wgmma", "guarded"])
def test_an_unregistered_file_is_compiled_for_the_architecture_it_needs(tmp_path: Path, text: str) -> None:
    result = prepared(tmp_path, text)
    assert errors(result) == []
    assert result.artifact is not None and result.artifact.arch == "sm_90a"
    assert list(result.resources) == ["sm_90a"]


def test_the_error_of_a_registered_kernel_names_the_architecture_it_needs(tmp_path: Path) -> None:
    result = prepared(tmp_path, CLUSTER, REGISTERED)
    first = errors(result)[0]
    assert result.artifact is None
    assert "not supported for this GPU architecture" in first and 'set `arch = "sm_90a"` in gpuemu.toml' in first


def test_a_requested_architecture_is_kept(tmp_path: Path) -> None:
    result = prepared(tmp_path, CLUSTER, arch="sm_80")
    assert result.artifact is None and errors(result)


def test_other_errors_are_not_compiled_again(tmp_path: Path) -> None:
    result = prepared(tmp_path, "__global__ void k(float* x) { x[0] = 1.0f\n}\n")
    assert errors(result)

    def compile_for(arch: str) -> None:
        raise AssertionError(f"compiled for {arch}")

    assert compiled_for_newer(result.findings, compile_for) is None  # type: ignore[arg-type]

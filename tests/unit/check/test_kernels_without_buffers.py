"""Kernels without a pointer parameter, which work on __device__ variables: they are planned, run and judged."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

SOURCE = """\
#include <cassert>
#include <cstdio>
__device__ int counter;
__device__ float table[64];
__global__ void bump(int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&counter, 1);
}
__global__ void fill(int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) table[i] = 1.0f;
}
__global__ void clear() { table[threadIdx.x] = 0.0f; }
__global__ void count() { counter += 1; }
__global__ void print(int n) {
    if (threadIdx.x < n) printf("%d", threadIdx.x);
    assert(threadIdx.x != 33);
}
__global__ void scale(float factor, int n) { if (threadIdx.x < n && threadIdx.x < 64) table[threadIdx.x] *= factor; }
__global__ void chase(void** next) { *next = 0; }
"""
LAUNCH = '[kernels.launch]\ngrid = "ceil_div(n, 64)"\nblock = 64\n'
ONE = "[kernels.launch]\ngrid = 1\nblock = 64\n"
SIZE = '[kernels.args]\nn = "n"\n[kernels.dims]\nn = { min = 1, max = 200 }\n'


def check(folder: Path, kernel: str, config: str, key: str = "") -> tuple[KernelReport, list[Finding]]:
    (folder / "k.cu").write_text(SOURCE)
    (folder / "gpuemu.toml").write_text(f'[[kernels]]\nname = "{kernel}"\nsource = "k.cu"\n{key}{config}')
    targets = collect([], CheckOptions(cases=4), folder)
    (request,) = [request for request in targets.requests if request.registered]
    events = list(check_kernel(request))
    assert isinstance(events[-1], KernelReport)
    return events[-1], [event for event in events if isinstance(event, Finding)]


@pytest.mark.parametrize(
    ("kernel", "config"),
    [
        ("bump", SIZE + LAUNCH),
        ("clear", ONE),
        ("scale", ONE),
        ("fill", "[kernels.dims]\nn = { min = 1, max = 64 }\n" + LAUNCH),
    ],
)
def test_correct_kernels_run_to_completion(tmp_path: Path, kernel: str, config: str) -> None:
    report, findings = check(tmp_path, kernel, config)
    assert report.status == "unreferenced" and report.cases.run == 4
    assert not [finding for finding in findings if finding.rule != "config/launch-inferred"]


@pytest.mark.parametrize(
    ("kernel", "config", "rule"),
    [
        ("fill", SIZE + LAUNCH, "memory/out-of-bounds"),
        ("count", ONE, "memory/global-race"),
        ("print", "[kernels.dims]\nn = 40\n" + ONE, "sync/trap"),
    ],
)
def test_mistakes_on_device_variables_are_found(tmp_path: Path, kernel: str, config: str, rule: str) -> None:
    report, findings = check(tmp_path, kernel, config)
    assert report.status == "failed" and rule in [finding.rule for finding in findings]


def test_a_reference_has_nothing_to_be_compared_with(tmp_path: Path) -> None:
    (tmp_path / "r.py").write_text("def reference(inputs, **kwargs):\n    return None\n")
    report, findings = check(tmp_path, "bump", SIZE + LAUNCH, 'reference = "r.py"\n')
    assert report.status == "error"
    assert [finding.rule for finding in findings] == ["reference/wrong-shape"] and "remove" in findings[0].message


def test_the_advice_for_a_registered_kernel_is_not_to_register_it(tmp_path: Path) -> None:
    _, (finding,) = check(tmp_path, "chase", ONE)
    assert finding.rule == "engine/not-executed" and "Register" not in finding.message
    assert "[kernels.args]\nnext =" in finding.message

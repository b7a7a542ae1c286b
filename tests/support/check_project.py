"""One kernel with a reference, ``twice``, as a project to check with the real compiler and emulator."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.check.model import KernelReport, Stage
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.findings import collect as collect_finding
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest

CU = """\
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2.0f * x[i];
}
"""
REFERENCE = "def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n"
TOML = '[[kernels]]\nname = "twice"\nsource = "twice.cu"\nreference = "twice.py"\n'


def request(folder: Path, cu: str = CU, reference: str = REFERENCE, toml: str = TOML, **options) -> CheckRequest:
    """Write the project and return the request to check its kernel."""
    (folder / "twice.cu").write_text(cu)
    (folder / "twice.py").write_text(reference)
    (folder / "gpuemu.toml").write_text(toml)
    targets = collect([], CheckOptions(**options), folder)
    assert not targets.findings, targets.findings
    (made,) = targets.requests
    return replace(made, options=replace(made.options, store_root=options.get("store_root")))


def run(made: CheckRequest) -> tuple[KernelReport, list[Finding], list[str]]:
    """Check the kernel; return its report, findings and stages."""
    events = list(check_kernel(made))
    assert isinstance(events[-1], KernelReport)
    findings: list[Finding] = []
    for event in events:
        if isinstance(event, Finding):
            collect_finding(findings, event)
    return events[-1], findings, [event.stage for event in events if isinstance(event, Stage)]

"""Events of loads that the optimiser hoisted are dropped; those of the source's own loads stand."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.subjects.request import CheckOptions

CU = """\
__global__ void first(const float* x, float* y, int n) {
    __shared__ float s[32];
    int t = threadIdx.x, i = blockIdx.x * 32 + t;
    float v = i < n ? x[i] : 0.0f;
    if (t == 0) s[0] = v;
    float w = v;
    if (t == 0) w += 2.0f * s[0];
    __syncwarp();
    if (t == 0) s[0] = w + v;
    if (i < n) y[i] = w;
}
"""
REFERENCE = """\
import numpy as np
def reference(inputs, **kwargs):
    x = inputs["x"]
    return np.where(np.arange(len(x)) % 32 == 0, 3 * x, x)
"""
TOML = """\
[[kernels]]
name = "first"
source = "first.cu"
reference = "first.py"
launch = { grid = "ceil_div(n, 32)", block = 32 }
args = { x = { in = ["n"] }, y = { out = ["n"] }, n = "n" }
dims = { n = { max = 200 } }
"""


def check(folder: Path, text: str) -> tuple[KernelReport, list[Finding]]:
    for name, content in (("first.cu", text), ("first.py", REFERENCE), ("gpuemu.toml", TOML)):
        (folder / name).write_text(content)
    (request,) = collect([], CheckOptions(), folder).requests
    events = list(check_kernel(request))
    assert isinstance(events[-1], KernelReport)
    errors = [event for event in events if isinstance(event, Finding) and event.severity is Severity.ERROR]
    return events[-1], errors


def test_a_load_hoisted_for_all_lanes_gives_no_finding(tmp_path: Path) -> None:
    report, errors = check(tmp_path, CU)
    assert (report.status, errors) == ("passed", [])
    assert report.cases.run == 16


@pytest.mark.parametrize(
    ("old", "new", "rule", "line"),
    [
        ("if (t == 0) w += 2.0f", "if (t <= 1) w += t == 1 ? 0.0f * s[0] : 2.0f", "memory/shared-race", 7),
        ("    if (t == 0) s[0] = v;\n", "", "memory/uninitialized-read", 6),
    ],
)
def test_an_event_that_unoptimised_code_shows_stands(tmp_path: Path, old: str, new: str, rule: str, line: int) -> None:
    assert old in CU
    report, errors = check(tmp_path, CU.replace(old, new))
    assert report.status == "failed"
    assert (rule, line) in [(error.rule, error.place.range.start.line + 1) for error in errors]

"""Line coverage, and cases guided to untaken branches."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import CheckOptions, KernelReport, Replay
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.replay import replay
from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.jobs.targets import collect
from gpuemu_lsp.engine.store import Store

KERNEL = """\
__global__ void twice(const float* x, const int* kind, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = 2.0f * x[i];
    if (CONDITION)
        v = WRONG;
    y[i] = v;
}
"""
TOML = """\
[[kernels]]
name = "twice"
source = "twice.cu"
reference = "twice.py"
[kernels.dims]
n = { min = 1, max = 2000 }
[kernels.args]
x = { in = ["n"] }
kind = { in = ["n"], range = [0, 5000000] }
y = { out = ["n"] }
n = "n"
[kernels.launch]
grid = "ceil_div(n, 128)"
block = 128
"""


def check(folder: Path, condition: str, wrong: str, **options) -> tuple[KernelReport, list[Finding], object]:
    (folder / "twice.cu").write_text(KERNEL.replace("CONDITION", condition).replace("WRONG", wrong))
    (folder / "twice.py").write_text("def reference(inputs, **kwargs):\n    return 2.0 * inputs['x']\n")
    (folder / "gpuemu.toml").write_text(TOML)
    targets = collect([], CheckOptions(cases=40, **options), folder)
    (request,) = targets.requests
    events = list(check_kernel(request))
    assert isinstance(events[-1], KernelReport)
    return events[-1], [event for event in events if isinstance(event, Finding)], request


@pytest.mark.parametrize(
    "condition", ["n == 613", "x[i] > 977.0f", "kind[i] == 431234", "x[i] == -3.7185f", "n == 1310 && kind[i] == 77"]
)
def test_a_branch_that_random_cases_miss_is_found_and_its_case_replays(tmp_path: Path, condition: str) -> None:
    report, findings, _ = check(tmp_path, condition, "v + 1.0f")
    assert report.status == "passed" and not report.coverage, findings  # the same number of cases, not guided
    report, findings, request = check(tmp_path, condition, "v + 1.0f", coverage=True)
    assert "numeric/tolerance-exceeded" in [finding.rule for finding in findings], report
    with Store(tmp_path) as store:
        stored = store.failures(5)
    assert stored
    for item in stored:
        last = list(replay(request, item.failure, item.case))[-1]
        assert isinstance(last, Replay) and last.verdict == "still fails", (item, last)


def test_lines_and_branch_outcomes_that_were_reached(tmp_path: Path) -> None:
    report, _, _ = check(tmp_path, "x[i] * x[i] > 977.0f", "sqrtf(v) + 1.0f", coverage=True)
    assert {one.path for one in report.coverage} == {str(tmp_path / "twice.cu")}
    lines = {one.line + 1: one for one in report.coverage}
    assert lines[7].reached and lines[2].reached
    (tmp_path / "twice.cu").unlink()
    report, _, _ = check(tmp_path, "clock64() < 0", "x[i] / v, y[n - 1] = 1.0f", coverage=True)
    lines = {one.line + 1: one for one in report.coverage}
    assert not lines[6].reached
    ways = {way.to: way.reached for way in lines[5].ways}
    assert ways[5] is False and any(ways.values())

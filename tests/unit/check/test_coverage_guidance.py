"""Line coverage, and cases guided to untaken branches."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuemu_lsp.engine.check.model import KernelReport, Replay
from gpuemu_lsp.engine.check.pipeline import check_kernel
from gpuemu_lsp.engine.check.replay import replay
from gpuemu_lsp.engine.findings import Finding, Severity
from gpuemu_lsp.engine.jobs.requests.targets import collect
from gpuemu_lsp.engine.store import Store
from gpuemu_lsp.engine.subjects.request import CheckOptions

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


PLANTED = """\
__device__ int total;
__global__ void k(const int* v, float* y, int n, int x, unsigned z) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    y[i] = 1.0f;
    if (CONDITION) STATEMENT;
}
"""
PLANTED_TOML = """\
[[kernels]]
name = "k"
source = "k.cu"
[kernels.dims]
n = { min = 64, max = 2000 }
x = { min = 1, max = 99999 }
z = { min = 1, max = 99999 }
[kernels.args]
v = { in = ["n"], range = [0, 1000000] }
y = { out = ["n"] }
n = "n"
x = "x"
z = "z"
[kernels.launch]
grid = "ceil_div(n, 128)"
block = 128
"""


def check_planted(folder: Path, condition: str, statement: str, cases: int) -> tuple[KernelReport, set[str]]:
    (folder / "k.cu").write_text(PLANTED.replace("CONDITION", condition).replace("STATEMENT", statement))
    (folder / "gpuemu.toml").write_text(PLANTED_TOML)
    (request,) = collect([], CheckOptions(cases=cases, coverage=True), folder).requests
    events = list(check_kernel(request))
    assert isinstance(events[-1], KernelReport)
    findings = [event for event in events if isinstance(event, Finding)]
    # Of the sizes, which are only numbers to this kernel, not all can be their largest at once: a hint.
    return events[-1], {finding.rule for finding in findings if finding.severity is not Severity.HINT}


@pytest.mark.parametrize(
    "condition",
    [
        "x == 18543",
        "x + 3 > 99990",
        "3 * x + 7 == 51307",
        "(x ^ 77) == 4123",
        "x % 1000 == 185",
        "x / 7 == 1234",
        "x * x == 34225",
        "z >= 99000 && z < 99003",
        "x == n + 12345",
        "z == 2 * x + 1",
        "z % 1024 == 77 && x == 4071",
        "v[i] == 185123",
        "v[i] % 100000 == 777",
        "(v[i] >> 4) == 1111 && (v[i] & 15) == 7",
        "v[i] == x + 54321",
        "v[i] == 91234 && x == 777",
    ],
)
def test_a_race_behind_a_comparison_that_can_be_solved(tmp_path: Path, condition: str) -> None:
    """In the number of cases of the deep check; correct counterparts are clean."""
    report, rules = check_planted(tmp_path, condition, "total += i", 400)
    assert "memory/global-race" in rules and report.status == "failed"
    report, rules = check_planted(tmp_path, condition, "atomicAdd(&total, i)", 60)
    assert not rules and report.cases.passed == report.cases.run >= 60


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

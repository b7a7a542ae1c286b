"""Counters of a launch by source line, and the hints derived from them."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.check_project import REFERENCE, request, run

from gpuemu_lsp.engine.check.model import LineTraffic

TOML = """\
[[kernels]]
name = "twice"
source = "twice.cu"
reference = "twice.py"
dims = { n = 64 }
args = { x = { in = ["n", "n"] }, y = { out = ["n", "n"] }, n = "n" }
launch = { grid = ["n // 32", "n // 32"], block = [32, 8] }
"""
TILED = """\
__global__ void twice(const float* x, float* y, int n) {
    __shared__ float tile[32][33];
    int i = blockIdx.x * 32, j = blockIdx.y * 32;
    for (int r = threadIdx.y; r < 32; r += 8)
        tile[r][threadIdx.x] = x[(j + r) * n + i + threadIdx.x];
    __syncthreads();
    for (int r = threadIdx.y; r < 32; r += 8)
        y[(j + threadIdx.x) * n + i + r] = 2.0f * tile[threadIdx.x][r];
}
"""
COALESCED = TILED.replace("(j + threadIdx.x) * n + i + r", "(j + r) * n + i + threadIdx.x").replace(
    "tile[threadIdx.x][r]", "tile[r][threadIdx.x]"
)


def perf(findings) -> list[tuple[str, int]]:
    return sorted((one.rule, one.place.range.start.line) for one in findings if one.rule.startswith("perf/"))


@pytest.mark.parametrize(
    ("cu", "expected"),
    [
        (COALESCED, []),
        (TILED, [("perf/uncoalesced", 7)]),
        (COALESCED.replace("[33]", "[32]"), []),
        (TILED.replace("[33]", "[32]"), [("perf/bank-conflict", 7), ("perf/uncoalesced", 7)]),
        (TILED.replace("[33]", "[34]"), [("perf/bank-conflict", 7), ("perf/uncoalesced", 7)]),  # two words a bank
    ],
)
def test_waste_is_a_hint_on_its_line(tmp_path: Path, cu: str, expected: list[tuple[str, int]]) -> None:
    report, findings, stages = run(request(tmp_path, cu, toml=TOML, counters=True, cases=1))
    assert report.status == "passed"
    assert stages[-1] == "count"
    assert perf(findings) == expected
    assert all(one.severity == "hint" and one.case for one in findings if one.rule.startswith("perf/"))


def test_counters_of_a_line(tmp_path: Path) -> None:
    report, _, _ = run(request(tmp_path, TILED.replace("[33]", "[32]"), toml=TOML, counters=True, cases=1))
    (counters,) = report.counters
    assert (counters.dtype, counters.dims) == ("float32", {"n": 64})
    assert counters.operations == 64 * 64
    assert counters.touched == 2 * 64 * 64 * 4
    assert counters.bytes == 32 * (128 * 4 + 128 * 32)
    (line,) = (one for one in counters.lines if one.line == 7)
    assert line.traffic == (
        LineTraffic("global", "store", 128, 128 * 128, 128 * 32, 128 * 4),
        LineTraffic("shared", "load", 128, 128 * 128, 128 * 32, 128),
    )
    assert line.lanes == 32 * line.instructions


def test_idle_lanes_are_reported_where_they_matter(tmp_path: Path) -> None:
    cu = """\
__global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = x[i];
    if (threadIdx.x % 8 == 0)
        for (int r = 0; r < 64; r++)
            v += __sinf(v) * 0.0f;
    y[i] = 2.0f * x[i] + v - v;
}
"""
    reference = REFERENCE.replace("2.0 * inputs['x']", "2.0 * inputs['x'] + 0.0")
    toml = """\
[[kernels]]
name = "twice"
source = "twice.cu"
reference = "twice.py"
dims = { n = 1024 }
args = { x = { in = ["n"], range = [-1.0, 1.0] }, y = { out = ["n"] }, n = "n" }
launch = { grid = ["n // 128"], block = [128] }
"""
    _, findings, _ = run(request(tmp_path, cu, reference, toml, counters=True, cases=1))
    assert ("perf/divergence", 6) in perf(findings)
    _, findings, _ = run(request(tmp_path, cu.replace("% 8 == 0", "< 32"), reference, toml, counters=True, cases=1))
    assert perf(findings) == []


def test_a_comment_silences_a_hint(tmp_path: Path) -> None:
    cu = TILED.replace("tile[threadIdx.x][r];", "tile[threadIdx.x][r];  // gpuemu: ignore[perf/uncoalesced]")
    _, findings, _ = run(request(tmp_path, cu, toml=TOML, counters=True, cases=1))
    assert perf(findings) == []


def test_nothing_is_counted_without_a_request_or_a_passing_case(tmp_path: Path) -> None:
    report, findings, stages = run(request(tmp_path, TILED, toml=TOML, cases=1))
    assert report.counters == () and perf(findings) == [] and "count" not in stages
    wrong = TILED.replace("2.0f", "3.0f")
    report, findings, _ = run(request(tmp_path, wrong, toml=TOML, counters=True, cases=1))
    assert report.status == "failed" and report.counters == () and perf(findings) == []

"""Coverage of lines and branch outcomes."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out

KERNEL = """\
extern "C" __global__ void k(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    if (x[i] > 50.0f)
        y[i] = x[i] * 3.0f;
    if (n == 77)
        y[0] = 5.0f;
    __shared__ float s[64];
    s[threadIdx.x] = x[i];
    __syncwarp();
    y[i] += s[threadIdx.x ^ 1];
}
"""


def reached(n: int, block: int = 64, top: float = 200.0, **more) -> tuple[set[int], set[tuple[int, int | None]]]:
    """Return the lines that act and are reached, and the (line, target) of branches never taken that way."""
    x = np.linspace(0, top, 128, dtype=np.float32)
    outcome = launch(
        KERNEL, -(-n // block), block, x, out(np.zeros(128, np.float32)), np.int32(n), coverage=True, **more
    )
    coverage = outcome.coverage
    assert coverage is not None
    pairs = list(zip(coverage.goals, map(bool, coverage.hit), strict=True))
    lines = {goal.at.line for goal, hit in pairs if hit and not goal.way and goal.acts and goal.at}
    missed = {
        (goal.at.line, goal.to.line if goal.to else None) for goal, hit in pairs if goal.way and not hit and goal.at
    }
    return lines, missed


@pytest.mark.parametrize("options", [(), ("-G",)], ids=["optimised", "unoptimised"])
def test_lines_behind_a_branch_are_covered_only_if_it_is_taken(options) -> None:
    lines, missed = reached(64, options=options)
    assert 5 in lines and 7 not in lines
    assert any(line == 6 and to == 7 for line, to in missed)
    assert not any(line == 4 for line, _ in missed)
    lines, _ = reached(77, options=options)
    assert {5, 7} <= lines
    lines, missed = reached(64, top=10.0, options=options)
    assert 5 not in lines and any(line == 4 for line, _ in missed)


def test_a_divergent_branch_covers_both_outcomes_and_a_uniform_one_its_own() -> None:
    _, missed = reached(64)
    assert any(line == 3 for line, _ in missed)
    _, missed = reached(70)
    assert not any(line == 3 for line, _ in missed)
    _, missed = reached(96, block=48)  # partial warps
    assert any(line == 3 for line, _ in missed)


def test_coverage_is_optional_and_does_not_change_results() -> None:
    x = np.linspace(0, 100, 128, dtype=np.float32)
    plain, counted = (
        launch(KERNEL, 2, 64, x, out(np.zeros(128, np.float32)), np.int32(100), coverage=on) for on in (False, True)
    )
    assert plain.coverage is None and counted.coverage is not None
    assert plain.buffers["a1"].tobytes() == counted.buffers["a1"].tobytes()
    assert plain.events == counted.events


def test_a_comparison_has_two_outcomes_like_a_branch() -> None:
    source = """extern "C" __global__ void k(const int* x, int* y, int n) {
      int v = x[threadIdx.x];
      y[threadIdx.x] = v == 41 ? 7 : n == 5 ? v : 9; }"""
    seen = []
    for value, n in ((0, 6), (41, 6), (0, 5)):
        coverage = launch(
            source, 1, 32, np.full(32, value, np.int32), out(np.zeros(32, np.int32)), np.int32(n), coverage=True
        ).coverage
        assert coverage is not None
        seen.append(
            {
                (goal.way, goal.against)
                for goal, hit in zip(coverage.goals, coverage.hit, strict=True)
                if hit and goal.way
            }
        )
    assert len(set(map(frozenset, seen))) == 3
    assert {number for ways in seen for _, against in ways for number in against} == {41, 5}

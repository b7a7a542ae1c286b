"""Load groups: several loads share one check, and a fault of one load is reported for that load alone."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, result, rules

from gpuemu_lsp.engine.execution import Checks

CHECKS = [Checks(races=False, sync=False), Checks()]


@pytest.mark.parametrize("checks", CHECKS, ids=["memory", "races"])
@pytest.mark.parametrize("hole", [None, 0, 37, 63])
def test_one_iteration_reads_uninitialised_memory(hole: int | None, checks: Checks) -> None:
    source = """extern "C" __global__ void k(const float* x, float* y, int hole) {
      __shared__ float one[64], rows[16][64];
      int t = threadIdx.x;
      if (t != hole) one[t] = x[t];
      for (int r = 0; r < 16; r++) if (r * 4 != hole) rows[r][t] = x[t] + r;
      __syncthreads();
      float sum = 0;
      for (int r = 0; r < 16; r++) sum += one[r * 4 + 3] * rows[r][t];
      for (int r = 0; r < 32; r++) sum += one[r + 32];
      y[t] = sum;
    }"""
    x = np.arange(64, dtype=np.float32)
    outcome = launch(source, 1, 64, x, np.zeros(64, np.float32), np.int32(-1 if hole is None else hole), checks=checks)
    lanes = [event.count for event in outcome.events]
    # Elements 37 and 63 are read by all lanes, by one load each; hole 0 leaves row 0 unwritten.
    assert lanes == {None: [], 0: [64], 37: [64], 63: [64]}[hole]
    assert rules(outcome) == (["memory/uninitialized-read"] if lanes else [])
    if hole is None:
        expected = sum(x[r * 4 + 3] * (x + r) for r in range(16)) + sum(x[32:])
        assert np.array_equal(result(outcome, 1, np.float32), expected)


@pytest.mark.parametrize("checks", CHECKS, ids=["memory", "races"])
def test_a_store_or_a_changed_base_ends_a_group(checks: Checks) -> None:
    source = """extern "C" __global__ void k(int* x, int* y) {
      int t = threadIdx.x;
      int* p = x + t;
      p[0] = 1;
      int sum = p[0];
      p[64] = 2;
      sum += p[64] + p[0];
      p += y[t];
      sum += p[0] + p[64];
      y[t] = sum;
    }"""
    first, second = out(np.zeros(192, np.int32)), np.zeros(64, np.int32)
    outcome = launch(source, 1, 64, first, second, checks=checks)
    assert not outcome.events
    assert result(outcome, 1, np.int32).tolist() == [7] * 64
    second[5] = 64
    outcome = launch(source, 1, 64, first, second, checks=checks)
    assert [(event.rule, event.thread, event.count) for event in outcome.events] == [
        ("memory/uninitialized-read", (5, 0, 0), 1)
    ]


def test_an_unrolled_loop_that_crosses_the_end_of_a_buffer() -> None:
    source = """extern "C" __global__ void k(const float* x, float* y) {
      float sum = 0;
      for (int r = 0; r < 8; r++) sum += x[r * 64 + threadIdx.x];
      y[threadIdx.x] = sum;
    }"""
    for size, wrong in ((512, []), (500, [12]), (440, [8, 64])):
        x = np.ones(size, np.float32)
        outcome = launch(source, 1, 64, x, np.zeros(64, np.float32), checks=CHECKS[0])
        assert sorted(event.count for event in outcome.events) == sorted(wrong)
        expected = [sum(r * 64 + t < size for r in range(8)) for t in range(64)]
        assert outcome.buffers["a1"].view(np.float32).tolist() == expected

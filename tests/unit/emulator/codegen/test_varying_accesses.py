"""Accesses at varying addresses: contiguous in fact, scattered, and faulty."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, result, rules

from gpuemu_lsp.engine.execution import Checks

TYPES = {"unsigned char": np.uint8, "short": np.int16, "int": np.int32, "double": np.float64}

# Lanes leave the loop in different iterations (temporal divergence), so that i is varying.
STRIDED = """extern "C" __global__ void k(const T* x, T* y, const int* from, int n) {
  for (int i = from[threadIdx.x]; i < n; i += 40) { y[i] = x[i] + 1; if (x[i] == 7) break; }
}"""


@pytest.mark.parametrize("checks", [Checks(), Checks(races=False, sync=False)], ids=["races", "no races"])
@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("order", ["contiguous", "swapped pairs", "descending", "holes"])
def test_every_lane_accesses_its_element(order: str, kind: str, checks: Checks) -> None:
    lanes = np.arange(40, dtype=np.int32)
    holes = lanes + 200 * (lanes % 3 == 1)
    starts = {"contiguous": lanes, "swapped pairs": lanes ^ 1, "descending": lanes[::-1], "holes": holes}[order]
    x = (np.arange(130) % 13).astype(TYPES[kind])
    x[5] = 7
    expected = np.zeros_like(x)
    for start in starts:
        for i in range(start, 130, 40):
            expected[i] = x[i] + 1
            if x[i] == 7:
                break
    source = STRIDED.replace("T*", f"{kind}*")
    outcome = launch(source, 1, 40, x, np.zeros_like(x), starts.astype(np.int32), np.int32(130), checks=checks)
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, TYPES[kind]), expected)
    assert outcome.written["a1"].reshape(130, -1).all(1).tolist() == (expected != 0).tolist()


@pytest.mark.parametrize("order", [1, -1], ids=["contiguous", "descending"])
def test_a_few_lanes_beyond_the_end(order: int) -> None:
    lanes = np.arange(40, dtype=np.int32)[::order]
    x = np.ones(126, np.int32)
    outcome = launch(STRIDED.replace("T*", "int*"), 1, 40, x, np.zeros(140, np.int32), lanes.copy(), np.int32(130))
    found = [(event.rule, event.count, event.buffer) for event in outcome.events]
    assert found == [("memory/out-of-bounds", 4, "a0")] * 2
    assert outcome.buffers["a1"].view(np.int32)[:126].tolist() == [2] * 126


def test_one_lane_reads_uninitialised_memory() -> None:
    source = """extern "C" __global__ void k(int* x, int* y, const int* from) {
      int i = from[threadIdx.x];
      if (i != 9) x[i] = 1;
      __syncwarp();
      y[i] = x[i];
    }"""
    lanes = np.arange(32, dtype=np.int32)
    outcome = launch(source, 1, 32, out(np.zeros(32, np.int32)), np.zeros(32, np.int32), lanes)
    assert rules(outcome) == ["memory/uninitialized-read"]
    assert outcome.events[0].thread == (9, 0, 0)
    assert outcome.events[0].count == 1


def test_two_lanes_that_store_to_one_element_race() -> None:
    source = """extern "C" __global__ void k(int* y, const int* from) {
      int i = from[threadIdx.x];
      y[i] = threadIdx.x;
    }"""
    lanes = np.arange(64, dtype=np.int32)
    assert not launch(source, 1, 64, np.zeros(64, np.int32), lanes).events
    lanes[40] = 3
    assert rules(launch(source, 1, 64, np.zeros(64, np.int32), lanes)) == ["memory/global-race"]

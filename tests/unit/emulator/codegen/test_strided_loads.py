"""Strided loads: the bytes between the lanes' elements are loaded with them, and neither checked nor reported."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, out, rules

from gpuemu_lsp.engine.execution import Checks

TYPES = {"unsigned char": np.uint8, "short": np.int16, "int": np.int32}
SOURCE = """extern "C" __global__ void k(const T* x, T* y, int from) {
  int t = threadIdx.x + blockDim.x * threadIdx.y;
  y[t] = x[S * t + from];
}"""


@pytest.mark.parametrize("checks", [Checks(races=False), Checks(), None], ids=["memory", "races", "unchecked"])
@pytest.mark.parametrize("block", [(64, 1, 1), (16, 4, 1)], ids=str)
@pytest.mark.parametrize(("kind", "step"), [("unsigned char", 2), ("unsigned char", 8), ("short", 2), ("int", 2)])
def test_every_lane_loads_its_element(kind: str, step: int, block: tuple[int, ...], checks: Checks | None) -> None:
    source = SOURCE.replace("T*", f"{kind}*").replace("S *", f"{step} *")
    checks = checks or Checks(bounds=False, uninitialized=False, races=False, sync=False, contained=False)
    for count in (64, 2048):  # a small buffer, and one large enough for the bounds check without shadow
        x = (np.arange((count - 1) * step + 1) * 7 % 101).astype(TYPES[kind])
        last = (count - 64) * step
        outcome = launch(source, 1, block, x, np.zeros(64, TYPES[kind]), np.int32(last), checks=checks)
        assert not outcome.events
        assert np.array_equal(outcome.buffers["a1"].view(TYPES[kind]), x[last::step])
        if checks.contained:
            outcome = launch(source, 1, block, x, np.zeros(64, TYPES[kind]), np.int32(last + 1), checks=checks)
            assert [(event.rule, event.count) for event in outcome.events] == [("memory/out-of-bounds", 1)]
            assert np.array_equal(outcome.buffers["a1"].view(TYPES[kind])[:-1], x[last + 1 :: step])


def test_bytes_between_elements_may_be_uninitialised() -> None:
    source = """extern "C" __global__ void k(int* x, int* y, int hole) {
      int t = threadIdx.x;
      if (t != hole) x[2 * t] = t;
      __syncthreads();
      y[t] = x[2 * t];
    }"""
    for hole in (-1, 5):
        outcome = launch(source, 1, 64, out(np.zeros(128, np.int32)), np.zeros(64, np.int32), np.int32(hole))
        assert rules(outcome) == (["memory/uninitialized-read"] if hole > 0 else [])
        assert [event.count for event in outcome.events] == [1] * len(outcome.events)


def test_a_race_names_the_lanes_that_conflict() -> None:
    source = """extern "C" __global__ void k(int* x, int* y, int lane) {
      int t = threadIdx.x;
      if (t == lane) x[2 * t + 2] = t;
      y[t] = x[2 * t];
    }"""
    x = np.zeros(130, np.int32)
    assert not launch(source, 1, 64, x, np.zeros(64, np.int32), np.int32(63)).events
    outcome = launch(source, 1, 64, x, np.zeros(64, np.int32), np.int32(40))
    assert rules(outcome) == ["memory/global-race"]
    assert outcome.events[0].thread in ((40, 0, 0), (41, 0, 0))
    assert outcome.events[0].count == 1

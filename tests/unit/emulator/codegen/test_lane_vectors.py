"""Vectors of 16 bytes at addresses of each lane's own, in baseline and in optimised code."""

from __future__ import annotations

import numpy as np
import pytest
from support import emulator_launch
from support.emulator_launch import Checks, launch, out, result

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Outcome

TYPES = {"float4": np.float32, "int4": np.int32, "double2": np.float64, "ulonglong2": np.uint64}
ORDERS = {
    "swizzled": lambda lane: lane ^ (lane >> 3 & 7),
    "reversed": lambda lane: lane[::-1].copy(),
    "random": lambda lane: np.random.default_rng(5).permutation(lane),
}
GLOBAL = """extern "C" __global__ void k(const V* x, V* y, const int* from, const int* to, int active) {
  if (threadIdx.x < active) y[to[threadIdx.x]] = x[from[threadIdx.x]];
}"""
SHARED = """extern "C" __global__ void k(const V* x, V* y, const int* from, const int* to, int active) {
  __shared__ V tile[64];
  tile[from[threadIdx.x]] = x[threadIdx.x];
  __syncthreads();
  if (threadIdx.x < active) y[threadIdx.x] = tile[to[threadIdx.x]];
}"""


@pytest.fixture(params=[False, True], ids=["baseline", "optimised"])
def _tier(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(emulator_launch, "EMULATOR", Emulator(optimised=request.param))


@pytest.mark.usefixtures("_tier")
@pytest.mark.parametrize("checks", [Checks(), Checks(races=False, sync=False)], ids=["races", "no races"])
@pytest.mark.parametrize("active", [64, 45, 3, 0])
@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", TYPES)
def test_every_lane_moves_its_vector(kind: str, order: str, active: int, checks: Checks) -> None:
    lanes = np.arange(64, dtype=np.int32)
    source, target = ORDERS[order](lanes), ORDERS["random"](lanes[::-1].copy())
    width = 16 // np.dtype(TYPES[kind]).itemsize
    x = np.arange(64 * width).astype(TYPES[kind]).reshape(64, width)
    expected = np.zeros_like(x)
    expected[target[:active]] = x[source[:active]]
    given = (x, np.zeros_like(x), source, target, np.int32(active))
    outcome = launch(GLOBAL.replace("V*", f"{kind}*"), 1, 64, *given, checks=checks)
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, TYPES[kind]).reshape(64, width), expected)
    moved = np.zeros(64, bool)
    moved[target[:active]] = True
    assert outcome.written["a1"].reshape(64, -1).all(1).tolist() == moved.tolist()

    tile = np.empty_like(x)
    tile[source] = x
    expected[:], expected[:active] = 0, tile[target[:active]]
    outcome = launch(SHARED.replace("V*", f"{kind}*").replace("V tile", f"{kind} tile"), 1, 64, *given, checks=checks)
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, TYPES[kind]).reshape(64, width), expected)


@pytest.mark.usefixtures("_tier")
@pytest.mark.parametrize("array", ["from", "to"])
def test_one_lane_out_of_bounds(array: str) -> None:
    outcome = _one_lane(array, 64)
    (event,) = outcome.events
    # Counted once for each element of the vector.
    assert (event.rule, event.count, event.thread[0]) == ("memory/out-of-bounds", 4, 37)
    # The other lanes have moved theirs.
    assert np.count_nonzero(outcome.buffers["a1"].view(np.float32).reshape(64, 4)[:, 0]) == 63


@pytest.mark.usefixtures("_tier")
def test_lanes_far_outside() -> None:
    for place in (-(1 << 27), 1 << 26, (1 << 27) - 1):
        (event,) = _one_lane("from", place).events
        assert (event.rule, event.count, event.thread[0]) == ("memory/out-of-bounds", 4, 37)


@pytest.mark.usefixtures("_tier")
def test_one_misaligned_lane() -> None:
    source = """extern "C" __global__ void k(const char* x, float4* y, const int* at) {
      y[threadIdx.x] = *(const float4*)(x + at[threadIdx.x]);
    }"""
    at = 16 * np.random.default_rng(1).permutation(32).astype(np.int32)
    at[9] = 8
    outcome = launch(source, 1, 32, np.ones(128, np.float32), np.zeros(128, np.float32), at)
    assert [(event.rule, event.count, event.thread[0]) for event in outcome.events] == [("memory/misaligned", 1, 9)]


@pytest.mark.usefixtures("_tier")
def test_one_uninitialised_vector() -> None:
    source = """extern "C" __global__ void k(float4* x, float4* y, const int* at) {
      int i = at[threadIdx.x];
      if (i != 9) x[i] = make_float4(1, 2, 3, 4);
      __syncwarp();
      y[threadIdx.x] = x[i];
    }"""
    at = np.random.default_rng(2).permutation(32).astype(np.int32)
    outcome = launch(source, 1, 32, out(np.zeros(128, np.float32)), np.zeros(128, np.float32), at)
    (event,) = outcome.events
    assert (event.rule, event.thread[0]) == ("memory/uninitialized-read", int(np.flatnonzero(at == 9)[0]))


@pytest.mark.usefixtures("_tier")
def test_the_highest_lane_wins_and_the_race_is_found() -> None:
    source = """extern "C" __global__ void k(float4* y, const int* to) {
      float v = threadIdx.x;
      y[to[threadIdx.x]] = make_float4(v, v, v, v);
    }"""
    to = np.random.default_rng(3).permutation(32).astype(np.int32)
    to[20] = to[4]
    outcome = launch(source, 1, 32, np.zeros(128, np.float32), to)
    assert [event.rule for event in outcome.events] == ["memory/global-race"]
    assert outcome.buffers["a0"].view(np.float32).reshape(32, 4)[to[4]].tolist() == [20.0] * 4


def _one_lane(array: str, place: int) -> Outcome:
    lanes = {name: np.random.default_rng(4).permutation(64).astype(np.int32) for name in ("from", "to")}
    lanes[array][37] = place
    x = np.ones((64, 4), np.float32)
    given = (x, np.zeros_like(x), lanes["from"], lanes["to"], np.int32(64))
    return launch(GLOBAL.replace("V*", "float4*"), 1, 64, *given)

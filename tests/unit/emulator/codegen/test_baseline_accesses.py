"""Contiguous accesses in baseline code, which the device library executes: same results as optimised code."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import artifact, compile_ptx

from gpuemu_lsp.engine.emulator import Emulator
from gpuemu_lsp.engine.execution import Buffer, Checks, Event, Outcome, Request, Scalar

KINDS = {"unsigned char": 1, "short": 2, "int": 4, "double": 8}
CHECKS = {"memory": Checks(races=False, sync=False), "races": Checks()}

SOURCE = """
extern "C" __global__ void k(const KIND* x, KIND* y, const KIND* part, KIND* few, int n, int from) {
  extern __shared__ char bytes[];
  KIND* tile = (KIND*)bytes;
  int t = threadIdx.y * blockDim.x + threadIdx.x, i = blockIdx.x * blockDim.x * blockDim.y + t;
  if (t >= from) tile[t] = x[i];           // lanes from the middle of a warp on
  else if (t < from - 3) tile[t] = 7;      // three elements stay uninitialised
  __syncthreads();
  KIND sum = tile[t] + tile[threadIdx.x];  // one row for each subvector in narrow blocks
  if (i < n) y[i] = sum;
  y[i] += part[i];                         // shorter than y
  few[i] = sum;                            // too short for the last lanes
  KIND* off = (KIND*)((char*)y + (from == 9));
  if (t > 40) off[t] = 1;                  // not aligned, for one ``from``
  if (blockIdx.x == 1 && t < 5) y[t] = 3;  // which races with block 0
  asm volatile("{ .reg .pred p; setp.lt.s32 p, %0, %1; @p st.global.u8 [%2], %0; }"
               :: "r"(t), "r"(from - 8), "l"((char*)few + t));  // a guard that may be false in all lanes
}
"""


def run(source: str, size: int, shape: tuple[int, int], start: int, checks: Checks, *, optimised: bool) -> Outcome:
    threads = shape[0] * shape[1]
    count = 2 * threads
    x = np.random.default_rng(5).integers(0, 99, count * size, np.uint8)
    arguments = (
        Buffer("x", x, element_size=size),
        Buffer("y", np.zeros(count * size, np.uint8), element_size=size),
        Buffer("part", x[: (count - 3) * size].copy(), element_size=size),
        Buffer("few", np.zeros((count - 9) * size, np.uint8), element_size=size, initialized=False),
        Scalar("n", np.int32(count - 5).tobytes()),
        Scalar("from", np.int32(start).tobytes()),
    )
    request = Request(artifact(compile_ptx(source)), "k", (2, 1, 1), (*shape, 1), threads * size, arguments, checks)
    return Emulator(optimised=optimised).run(request)


def reported(event: Event) -> tuple[object, ...]:
    """Return an event without the addresses, which depend on where the arena was allocated."""
    return event.rule, event.instruction, event.buffer, event.offset, event.size, event.count, event.block, event.thread


@pytest.mark.parametrize("checks", CHECKS)
@pytest.mark.parametrize("shape", [(64, 1), (16, 5), (8, 5)], ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_both_tiers_agree(kind: str, shape: tuple[int, int], checks: str) -> None:
    source, size = SOURCE.replace("KIND", kind), KINDS[kind]
    for start in (9, 21):
        baseline, optimised = (run(source, size, shape, start, CHECKS[checks], optimised=one) for one in (False, True))
        assert {reported(event) for event in baseline.events} == {reported(event) for event in optimised.events}
        assert baseline.status == optimised.status
        found = {event.rule for event in baseline.events}
        assert found >= {"memory/out-of-bounds", "memory/uninitialized-read"}
        assert ("memory/global-race" in found) == (checks == "races")
        assert ("memory/misaligned" in found) == (start == 9 and size > 1 and shape[0] * shape[1] > 40)
        for name, content in baseline.buffers.items():
            assert np.array_equal(content, optimised.buffers[name]), name


def test_inactive_lanes_hold_the_same_in_both_tiers() -> None:
    source = """extern "C" __global__ void k(const int* x, int* y, int n) {
      int t = threadIdx.x;
      if (t < n) {
        int v = x[t];
        y[t] = v + __shfl_down_sync(0xffffffff, v, 1);  // lane 20 reads a lane that is inactive
      }
    }"""
    x, y = np.arange(100, 164, dtype=np.int32), np.zeros(64, np.int32)
    arguments = (
        Buffer("x", x.view(np.uint8), element_size=4),
        Buffer("y", y.view(np.uint8), element_size=4),
        Scalar("n", np.int32(21).tobytes()),
    )
    request = Request(artifact(compile_ptx(source)), "k", (1, 1, 1), (64, 1, 1), 0, arguments, CHECKS["races"])
    baseline, optimised = (Emulator(optimised=one).run(request) for one in (False, True))
    assert {event.rule for event in baseline.events} == {event.rule for event in optimised.events} != set()
    assert np.array_equal(baseline.buffers["y"], optimised.buffers["y"])

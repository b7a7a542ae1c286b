"""Races between accesses of single lanes, for every position of the lane in its warp."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import Checks, launch, rules

LANES = (0, 1, 5, 31, 32, 40, 63)
# Both threads access one address near the start of shared memory: the address of lane 0, computed back from that of
# the active lane, would lie below the window.
KERNEL = """extern "C" __global__ void k(const float* x, float* y, int writer, int reader, int barrier) {
    __shared__ float tile[64];
    const int t = threadIdx.x;
    float sum = 0.0f;
    if (t == writer) tile[(writer + reader) % 3] = x[0];
    if (barrier) __syncthreads();
    if (t == reader) sum = tile[(writer + reader) % 3];
    __syncthreads();
    y[t] = sum;
}
"""


@pytest.mark.parametrize("barrier", [False, True], ids=["race", "barrier"])
def test_one_lane_writes_and_another_reads(barrier: bool) -> None:
    x, y = np.ones(1, np.float32), np.zeros(64, np.float32)
    checks = Checks(uninitialized=False, races=True)
    for writer in LANES:
        for reader in LANES:
            arguments = (np.int32(writer), np.int32(reader), np.int32(barrier))
            outcome = launch(KERNEL, 1, 64, x, y, *arguments, checks=checks)
            assert outcome.status == "completed"
            raced = "memory/shared-race" in rules(outcome)
            assert raced == (not barrier and writer != reader), (writer, reader)

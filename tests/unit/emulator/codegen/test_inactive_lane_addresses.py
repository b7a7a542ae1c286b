"""Address registers of inactive lanes may hold any value: neither their memory nor their shadow is accessed."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import Checks, launch, result

FAR = """extern "C" __global__ void k(const int* x, int* y, int rows, int far) {
  __shared__ int tile[16][16];
  const int tx = threadIdx.x, ty = threadIdx.y;
  const int* start = PLACE + (long long)(ty < rows ? 0 : far) * 0x10000000;
  if (ty < rows) FILL
  __syncthreads();
  if (ty < rows) {
    const int* row = start + (ty * 16 + tx) * STEP;
    y[ty * 16 + tx] = READ;
  }
}
"""
READS = {
    "one load": (1, "row[0]"),
    "load group": (1, "row[0] + row[16 * rows] - row[16 * rows]"),
    "strided": (2, "row[0]"),
}


@pytest.mark.parametrize("read", READS)
@pytest.mark.parametrize("place", ["x", "&tile[0][0]"])
@pytest.mark.parametrize("rows", [1, 2, 3, 4])
def test_inactive_lanes_may_hold_any_address(place: str, rows: int, read: str) -> None:
    step, text = READS[read]
    fill = "for (int r = ty; r < 16; r += rows) tile[r][tx] = x[r * 16 + tx];"
    source = FAR.replace("PLACE", place).replace("FILL", fill).replace("READ", text).replace("STEP", str(step))
    x = np.arange(256, dtype=np.int32)
    outcome = launch(source, 1, (16, 4), x, np.zeros(64, np.int32), np.int32(rows), np.int32(-77), checks=Checks())
    assert not outcome.events
    assert np.array_equal(result(outcome, 1, np.int32)[: 16 * rows], x[: 16 * rows * step : step])

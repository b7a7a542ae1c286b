"""Uninitialised registers: local variables that are read before they are assigned."""

from __future__ import annotations

import numpy as np
import pytest
from support.emulator_launch import launch, result

COLUMNS = 3
ROWS = """extern "C" __global__ void k(const float* x, float* y, int rows, int cols) {{
  int r = blockIdx.x * blockDim.x + threadIdx.x;
  if (r >= rows) return;
  {body}
}}"""


def rows_of(body: str, block: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the inputs and the results of a kernel with one thread per row."""
    rows = 2 * block - 1
    x = np.linspace(-9.0, 9.0, rows * COLUMNS, dtype=np.float32)
    outcome = launch(ROWS.format(body=body), 2, block, x, np.zeros(rows, np.float32), np.int32(rows), np.int32(COLUMNS))
    return x.reshape(rows, COLUMNS), result(outcome, 1, np.float32)


@pytest.mark.parametrize("block", [32, 40])
@pytest.mark.parametrize("start", ["float s;", "float s; int used = 0; if (cols < 0) { s = x[r]; used = 1; }"])
def test_an_uninitialised_accumulator_spoils_the_sum(start: str, block: int) -> None:
    x, y = rows_of(f"{start} for (int c = 0; c < cols; ++c) s += x[r * cols + c]; y[r] = s;", block)
    assert np.abs(y - x.sum(1)).min() > 1e6


@pytest.mark.parametrize(("function", "sign"), [("fmaxf", 1), ("fminf", -1)])
def test_neither_maximum_nor_minimum_hides_an_uninitialised_accumulator(function: str, sign: int) -> None:
    _, y = rows_of(f"float s; for (int c = 0; c < cols; ++c) s = {function}(s, x[r * cols + c]); y[r] = s;", 32)
    assert (sign * y).max() > 1e6


def test_an_index_assigned_in_some_lanes_only() -> None:
    x, y = rows_of("int a; for (int c = 0; c < cols; ++c) if (x[r * cols + c] > 0.f) a = c; y[r] = a;", 32)
    positive = (x > 0).any(1)
    assert positive.any() and not positive.all()
    assert (y[positive] == COLUMNS - 1).all()
    assert (np.abs(y[~positive]) > 1e6).all()


def test_a_register_assigned_wherever_it_is_read() -> None:
    x, y = rows_of("float v; if (x[r] > 0.f) v = x[r]; __syncwarp(); y[r] = x[r] > 0.f ? v : 1.f;", 32)
    flat = x.reshape(-1)[: len(y)]
    assert (y == np.where(flat > 0, flat, np.float32(1))).all()

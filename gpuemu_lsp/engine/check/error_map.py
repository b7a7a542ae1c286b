"""Where in an output the wrong elements lie, small enough to look at: numbers for a panel, signs for a hover."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.model import Array

MOST_CELLS = 64
"""Rows and columns of a picture."""
_SKETCH = (8, 32)
_SIGNS = " .+#"
"""No wrong element, some, half, all of a cell's."""


def picture(buffer: str, actual: Array, expected: Array | None, wrong: npt.NDArray[np.bool_]) -> Json:
    """Return an output as a grid of cells: of each, its worst element and the share of wrong ones.

    Of an output with more than two dimensions the leading ones become rows; a vector is folded into rows. A cell
    beyond the end has no numbers.
    """
    shape = list(actual.shape)
    grids = [_fold(np.asarray(array, dtype=np.float64)) for array in (actual, expected) if array is not None]
    got, right = grids[0], grids[1] if len(grids) > 1 else np.full_like(grids[0], np.nan)
    marks = _fold(wrong.astype(np.float64))
    with np.errstate(invalid="ignore", over="ignore"):
        difference = np.abs(got - right)
    rank = np.where(np.isnan(difference), np.inf, difference)
    rank[np.isnan(marks)] = -1.0
    rows, columns = (min(MOST_CELLS, size) for size in got.shape)
    cells = _Cells(got.shape, rows, columns)
    marked = marks > 0
    # A wrong element says more than a larger difference that is allowed.
    worst = cells.first_largest(np.where(marked | ~cells.spread(cells.any(marked)), rank, np.minimum(rank, 0.0)))
    there = cells.sum(~np.isnan(marks))
    share = cells.sum(np.nan_to_num(marks, nan=0.0)) / np.maximum(there, 1)
    compared = there if expected is not None else np.zeros_like(there)
    grown: dict[str, Json] = {
        "expected": _numbers(right.reshape(-1)[worst], compared),
        "actual": _numbers(got.reshape(-1)[worst], there),
        "difference": _numbers(difference.reshape(-1)[worst], compared),
        "wrong": np.round(share, 4).tolist(),
    }
    return {"buffer": buffer, "shape": [*shape], "rows": rows, "cols": columns, **grown}


def sketch(wrong: npt.NDArray[np.bool_]) -> list[Json]:
    """Return the same as a few lines of signs: blank where nothing is wrong, ``#`` where all is."""
    grid = _fold(wrong.astype(np.float64))
    rows, columns = (min(most, size) for most, size in zip(_SKETCH, grid.shape, strict=True))
    row_edges, column_edges = _edges(grid.shape[0], rows), _edges(grid.shape[1], columns)
    lines: list[Json] = []
    for top, bottom in pairwise(row_edges):
        parts = [grid[top:bottom, left:right] for left, right in pairwise(column_edges)]
        lines.append("".join(_sign(part) for part in parts))
    return lines


class _Cells:
    """A grid laid over an array of two dimensions."""

    def __init__(self, shape: tuple[int, ...], rows: int, columns: int) -> None:
        self._tops = np.array(_edges(shape[0], rows)[:-1])
        self._lefts = np.array(_edges(shape[1], columns)[:-1])
        self._heights = np.diff(self._tops, append=shape[0])
        self._widths = np.diff(self._lefts, append=shape[1])

    def any(self, values: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Say of each cell whether an element is set."""
        return self._reduced(np.logical_or, values)

    def sum(self, values: Array) -> npt.NDArray[np.float64]:
        """Return the sum of each cell's elements."""
        return self._reduced(np.add, values.astype(np.float64))

    def spread(self, cells: Array) -> Array:
        """Return for each element what is said of its cell."""
        return np.repeat(np.repeat(cells, self._heights, axis=0), self._widths, axis=1)

    def first_largest(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """Return for each cell where, in the whole array, the first of its largest elements is."""
        largest = np.flatnonzero(values == self.spread(self._reduced(np.maximum, values)))[::-1]
        numbers = np.arange(self._tops.size * self._lefts.size).reshape(self._tops.size, -1)
        found = np.zeros(numbers.size, dtype=np.intp)
        found[self.spread(numbers).reshape(-1)[largest]] = largest  # the last to be written is the first of the cell
        return found.reshape(numbers.shape)

    def _reduced(self, ufunc: np.ufunc, values: Array) -> Array:
        return ufunc.reduceat(ufunc.reduceat(values, self._tops, axis=0), self._lefts, axis=1)


def _numbers(values: npt.NDArray[np.float64], there: npt.NDArray[np.float64]) -> list[Json]:
    """Return cells as :func:`number` does, None for those where nothing is."""
    return [
        [number(value) if known else None for value, known in zip(*row, strict=True)]
        for row in zip(values.tolist(), there.tolist(), strict=True)
    ]


def number(value: object) -> Json:
    """Return a number as JSON can hold it, in the digits a picture needs."""
    real = float(value)  # type: ignore[arg-type]
    if real.is_integer() and -1e6 < real < 1e6:  # zero above all; the rest of the digits costs more than the picture
        return real
    if math.isnan(real):
        return "NaN"
    if math.isinf(real):
        return "Infinity" if real > 0 else "-Infinity"
    return float(f"{real:.6g}")


def _sign(part: npt.NDArray[np.float64]) -> str:
    known = part[~np.isnan(part)]
    share = float(known.mean()) if known.size else 0.0
    if share == 0.0:
        return _SIGNS[0]
    return _SIGNS[3] if share == 1.0 else _SIGNS[2] if share >= 0.5 else _SIGNS[1]


def _fold(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return two dimensions; what is beyond a folded vector's end is NaN."""
    if values.ndim >= 2:
        return values.reshape(-1, values.shape[-1]) if values.size else np.full((1, 1), np.nan)
    flat = values.reshape(-1)
    if flat.size <= MOST_CELLS:
        return flat.reshape(1, -1) if flat.size else np.full((1, 1), np.nan)
    columns = 1 << math.ceil(math.log2(math.sqrt(flat.size)))  # a power of two, so that warps and blocks line up
    rows = -(-flat.size // columns)
    padded = np.full(rows * columns, np.nan)
    padded[: flat.size] = flat
    return padded.reshape(rows, columns)


def _edges(size: int, parts: int) -> list[int]:
    return [size * index // parts for index in range(parts + 1)]

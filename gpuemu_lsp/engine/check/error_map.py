"""Maps of the wrong elements of an output: a grid of numbers for an editor's panel, a text sketch for a hover."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.fuzz.model import Array

MOST_CELLS = 64
"""Largest number of rows and columns of a map."""
_SKETCH = (8, 32)
"""Largest number of rows and columns of a sketch."""
_CHARACTERS = " .+#"
"""Characters for a share of wrong elements of zero, below a half, at least a half, one."""


def error_map(buffer: str, actual: Array, expected: Array | None, wrong: npt.NDArray[np.bool_]) -> Json:
    """Return an output as a grid of cells, each with its worst element and its share of wrong elements.

    The leading dimensions of an output with more than two become rows; a vector is folded into rows. Cells beyond the
    end of a vector contain None.
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
    # A wrong element is shown in preference to one with a larger error that is allowed.
    worst = cells.first_largest(np.where(marked | ~cells.spread(cells.any(marked)), rank, np.minimum(rank, 0.0)))
    present = cells.sum(~np.isnan(marks))
    share = cells.sum(np.nan_to_num(marks, nan=0.0)) / np.maximum(present, 1)
    compared = present if expected is not None else np.zeros_like(present)
    values: dict[str, Json] = {
        "expected": _numbers(right.reshape(-1)[worst], compared),
        "actual": _numbers(got.reshape(-1)[worst], present),
        "difference": _numbers(difference.reshape(-1)[worst], compared),
        "wrong": np.round(share, 4).tolist(),
    }
    return {"buffer": buffer, "shape": [*shape], "rows": rows, "cols": columns, **values}


def sketch(wrong: npt.NDArray[np.bool_]) -> list[Json]:
    """Return a map as lines of characters: a space for a cell without wrong elements, ``#`` for one with no others."""
    grid = _fold(wrong.astype(np.float64))
    rows, columns = (min(most, size) for most, size in zip(_SKETCH, grid.shape, strict=True))
    row_edges, column_edges = _edges(grid.shape[0], rows), _edges(grid.shape[1], columns)
    lines: list[Json] = []
    for top, bottom in pairwise(row_edges):
        parts = [grid[top:bottom, left:right] for left, right in pairwise(column_edges)]
        lines.append("".join(_character(part) for part in parts))
    return lines


class _Cells:
    """Partition of a two-dimensional array into a grid of cells."""

    def __init__(self, shape: tuple[int, ...], rows: int, columns: int) -> None:
        self._tops = np.array(_edges(shape[0], rows)[:-1])
        self._lefts = np.array(_edges(shape[1], columns)[:-1])
        self._heights = np.diff(self._tops, append=shape[0])
        self._widths = np.diff(self._lefts, append=shape[1])

    def any(self, values: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
        """Return for each cell whether any of its elements is set."""
        return self._reduced(np.logical_or, values)

    def sum(self, values: Array) -> npt.NDArray[np.float64]:
        """Return the sum of each cell's elements."""
        return self._reduced(np.add, values.astype(np.float64))

    def spread(self, cells: Array) -> Array:
        """Return the cells' values in the shape of the array, each element with that of its cell."""
        return np.repeat(np.repeat(cells, self._heights, axis=0), self._widths, axis=1)

    def first_largest(self, values: npt.NDArray[np.float64]) -> npt.NDArray[np.intp]:
        """Return for each cell the flat index, in the whole array, of the first of its largest elements."""
        largest = np.flatnonzero(values == self.spread(self._reduced(np.maximum, values)))[::-1]
        numbers = np.arange(self._tops.size * self._lefts.size).reshape(self._tops.size, -1)
        found = np.zeros(numbers.size, dtype=np.intp)
        # `largest` is in descending order, so the last value assigned to a cell is its first index.
        found[self.spread(numbers).reshape(-1)[largest]] = largest
        return found.reshape(numbers.shape)

    def _reduced(self, ufunc: np.ufunc, values: Array) -> Array:
        return ufunc.reduceat(ufunc.reduceat(values, self._tops, axis=0), self._lefts, axis=1)


def _numbers(values: npt.NDArray[np.float64], present: npt.NDArray[np.float64]) -> list[Json]:
    """Return the cells as JSON numbers, None for those that are not ``present``."""
    return [
        [number(value) if known else None for value, known in zip(*row, strict=True)]
        for row in zip(values.tolist(), present.tolist(), strict=True)
    ]


def number(value: object) -> Json:
    """Return a number as JSON can represent it, with the six digits that a map displays."""
    real = float(value)  # type: ignore[arg-type]
    # Formatting takes most of the time of a map; many cells are zero or small integers.
    if real.is_integer() and -1e6 < real < 1e6:
        return real
    if math.isnan(real):
        return "NaN"
    if math.isinf(real):
        return "Infinity" if real > 0 else "-Infinity"
    return float(f"{real:.6g}")


def _character(part: npt.NDArray[np.float64]) -> str:
    known = part[~np.isnan(part)]
    share = float(known.mean()) if known.size else 0.0
    if share == 0.0:
        return _CHARACTERS[0]
    return _CHARACTERS[3] if share == 1.0 else _CHARACTERS[2] if share >= 0.5 else _CHARACTERS[1]


def _fold(values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return the values in two dimensions; elements beyond the end of a folded vector are NaN."""
    if values.ndim >= 2:
        return values.reshape(-1, values.shape[-1]) if values.size else np.full((1, 1), np.nan)
    flat = values.reshape(-1)
    if flat.size <= MOST_CELLS:
        return flat.reshape(1, -1) if flat.size else np.full((1, 1), np.nan)
    # A power of two, so that errors with the period of a warp or a block line up in columns.
    columns = 1 << math.ceil(math.log2(math.sqrt(flat.size)))
    rows = -(-flat.size // columns)
    padded = np.full(rows * columns, np.nan)
    padded[: flat.size] = flat
    return padded.reshape(rows, columns)


def _edges(size: int, parts: int) -> list[int]:
    return [size * index // parts for index in range(parts + 1)]

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
    row_edges, column_edges = _edges(got.shape[0], rows), _edges(got.shape[1], columns)
    cells: dict[str, list[list[Json]]] = {name: [] for name in ("expected", "actual", "difference", "wrong")}
    for top, bottom in pairwise(row_edges):
        line: dict[str, list[Json]] = {name: [] for name in cells}
        for left, right_edge in pairwise(column_edges):
            part, marked = rank[top:bottom, left:right_edge], marks[top:bottom, left:right_edge] > 0
            if marked.any():  # a wrong element says more than a larger difference that is allowed
                part = np.where(marked, part, np.minimum(part, 0.0))
            row, column = (int(i) for i in np.unravel_index(int(np.argmax(part)), part.shape))
            row, column = top + row, left + column
            there = int(np.count_nonzero(~np.isnan(marks[top:bottom, left:right_edge])))
            line["expected"].append(number(right[row, column]) if there and expected is not None else None)
            line["actual"].append(number(got[row, column]) if there else None)
            line["difference"].append(number(difference[row, column]) if there and expected is not None else None)
            share = float(np.nansum(marks[top:bottom, left:right_edge])) / there if there else 0.0
            line["wrong"].append(round(share, 4))
        for name, values in line.items():
            cells[name].append(values)
    grown: dict[str, Json] = {name: list(values) for name, values in cells.items()}
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


def number(value: object) -> Json:
    """Return a number as JSON can hold it, in the digits a picture needs."""
    real = float(value)  # type: ignore[arg-type]
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

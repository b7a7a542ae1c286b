"""The lanes and columns of accumulators and scale factors (PTX ISA sections 9.7.16.10.5 and 9.7.16.10.7).

One block's part of an accumulator of M rows and N columns:

=======================================  =======================================================================
rows of the block                        lanes and columns
=======================================  =======================================================================
128 (layouts A, D)                       row i is lane i
64 of one block (layout F)               16 rows are the lower or the upper half of each quarter, as the address says
64 of a pair, or ``.ws`` (B, E)          row i is lanes i and 64 + i, which have one half of the columns each
32, ``.ws`` (layout G)                   row i is lanes i, 32 + i, 64 + i and 96 + i, which have a quarter each
=======================================  =======================================================================

A scale factor of row i (column of B) is in column i / 32 and lane i % 32 of each quarter; the bytes of the cell are
consecutive along k. CuTe has the same layouts in ``cute/atom/mma_traits_sm100_frag.hpp``.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import CellRange
from gpuemu_lsp.engine.emulator.launch.tensor_memory.descriptors import ProductShape
from gpuemu_lsp.engine.emulator.launch.tensor_memory.numbers import Cells, narrow_values
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import TensorForm

_QUARTER = 32


class Part(NamedTuple):
    """Cells of an accumulator, and the rows and columns of it that they are."""

    cells: CellRange
    rows: slice
    columns: slice


def accumulator_parts(shape: ProductShape, form: TensorForm, address: int) -> list[Part]:
    """Return the parts of one block's accumulator at an address; rows are counted from the block's first one."""
    lane, column = address >> 16, address & 0xFFFF
    rows = shape.rows // form.group
    if rows == 64 and form.group == 1 and not form.weights:
        cells = [CellRange(lane + _QUARTER * index, 16, column, shape.columns) for index in range(4)]
        return [Part(one, slice(16 * at, 16 * at + 16), slice(0, shape.columns)) for at, one in enumerate(cells)]
    width = shape.columns * rows // 128
    cells = [CellRange(lane + rows * index, rows, column, width) for index in range(128 // rows)]
    return [Part(one, slice(0, rows), slice(at * width, (at + 1) * width)) for at, one in enumerate(cells)]


def scale_range(count: int, address: int) -> CellRange:
    """Return the cells of the scale factors of some rows."""
    return CellRange(0, 128, address & 0xFFFF, -(-count // _QUARTER))


def scale_values(
    cells: Cells, count: int, number: int, scales: int, format_: str, depth: int
) -> npt.NDArray[np.float64]:
    """Return what the elements of some rows are multiplied with, of the shape (rows, depth).

    ``cells`` are those of :func:`scale_range`, of which those of the first quarter are read; ``number`` is that of the
    first byte.
    """
    codes = np.ascontiguousarray(cells[:_QUARTER].T).reshape(-1, 1).view(np.uint8)[:count, number : number + scales]
    return np.repeat(narrow_values(codes, format_), depth // scales, axis=1)

"""The cells that ``tcgen05.ld`` and ``st`` give to each register of a warp (PTX ISA section 9.7.16.2.3.1)."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.tensor_memory.cells import CellRange
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import TensorForm

Indices: TypeAlias = npt.NDArray[np.int64]
"""Lanes or columns, of the shape (registers, threads)."""

_HALF = np.uint32(0xFFFF)


@dataclass(frozen=True, slots=True, eq=False)
class FragmentCells:
    """The cells of a load or store relative to its address: the lane and the column of each register.

    ``packed``: a register has the low halves of a cell and of the next one. The cells lie in ``spans`` of columns, each
    of which has a first one and a number of them; ``lanes`` are 16 or 32.
    """

    lane: Indices
    column: Indices
    packed: bool
    lanes: int
    spans: tuple[tuple[int, int], ...]

    def ranges(self, address: int) -> list[CellRange]:
        """Return the cells of an access at an address."""
        lane, column = address >> 16, address & 0xFFFF
        return [CellRange(lane, self.lanes, column + first, count) for first, count in self.spans]

    def load(self, cells: npt.NDArray[np.uint32], address: int) -> npt.NDArray[np.uint32]:
        """Return the registers of a load, (registers, threads), from cells of the shape (lanes, columns)."""
        lane, column = self.lane + (address >> 16), self.column + (address & 0xFFFF)
        if not self.packed:
            return cells[lane, column]
        return cells[lane, column] & _HALF | cells[lane, column + 1] << np.uint32(16)

    def store(self, cells: npt.NDArray[np.uint32], address: int, registers: npt.NDArray[np.uint32]) -> None:
        """Store registers of the shape (registers, threads) to cells of the shape (lanes, columns)."""
        lane, column = self.lane + (address >> 16), self.column + (address & 0xFFFF)
        if not self.packed:
            cells[lane, column] = registers
            return
        cells[lane, column], cells[lane, column + 1] = registers & _HALF, registers >> np.uint32(16)


@lru_cache(maxsize=64)
def fragment(form: TensorForm, distance: int = 0) -> FragmentCells:
    """Return the fragment of a load or store; ``distance`` is that of the two halves of shape 16x32bx2, in columns."""
    register, thread = np.indices((form.registers, WARP_SIZE))
    if form.shape == "32x32b":
        lane, column = thread, register
    elif form.shape == "16x32bx2":
        lane, column = thread % 16, register
    elif form.shape == "16x64b":
        lane, column = thread // 4 + 8 * (thread % 2), 2 * register + thread // 2 % 2
    elif form.shape == "16x128b":
        lane, column = thread // 4 + 8 * (register % 2), 4 * (register // 2) + thread % 4
    else:
        lane, column = thread // 4 + 8 * (register // 2 % 2), 8 * (register // 4) + 2 * (thread % 4) + register % 2
    width = 2 if form.packed else 1
    column = column * width
    count = int(column.max()) + width
    spans: tuple[tuple[int, int], ...] = ((0, count),)
    if form.shape == "16x32bx2":
        column = column + thread // 16 * distance
        spans = ((0, count), (distance, count))
    return FragmentCells(lane, column, form.packed, int(form.shape[:2]), spans)

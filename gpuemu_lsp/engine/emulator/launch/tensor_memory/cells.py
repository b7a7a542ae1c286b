"""The tensor memory of one block: its contents, allocations, and who has written what."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.launch.async_order.traffic import TensorWork
from gpuemu_lsp.engine.emulator.matrix.tensor_memory import COLUMNS, LANES, TensorOperation

STRIPE: Final = 16
"""Lanes that are followed together: no operation writes to fewer."""


@dataclass(slots=True)
class TensorAccess(TensorWork):
    """An operation that writes or reads cells; ``group`` is the number of blocks that take part."""

    operation: TensorOperation = TensorOperation.MULTIPLY
    group: int = 1


class CellRange(NamedTuple):
    """Lanes from ``lane`` on and columns from ``column`` on."""

    lane: int
    lanes: int
    column: int
    columns: int

    @property
    def area(self) -> tuple[slice, slice]:
        """The cells as an index."""
        return slice(self.lane, self.lane + self.lanes), slice(self.column, self.column + self.columns)

    @property
    def stripes(self) -> tuple[slice, slice]:
        """The same by stripes of lanes."""
        last = self.lane + self.lanes - 1
        return slice(self.lane // STRIPE, last // STRIPE + 1), slice(self.column, self.column + self.columns)


@dataclass(frozen=True, slots=True)
class TensorColumns:
    """Columns that a warp has allocated, and where."""

    column: int
    columns: int
    site: int
    warp: int
    group: int


def _no_writers() -> npt.NDArray[np.int32]:
    return np.full((LANES // STRIPE, COLUMNS), -1, dtype=np.int32)


@dataclass(slots=True)
class TensorCells:
    """The tensor memory of a block.

    ``cells`` has the shape (lanes, columns). ``writers`` and ``readers`` have the number in ``accesses`` of the last
    one that wrote to or read from the cells of a stripe in a column, or -1. ``freed`` has the site that freed each
    column, or -1.
    """

    cells: npt.NDArray[np.uint32] = field(default_factory=lambda: np.zeros((LANES, COLUMNS), dtype=np.uint32))
    writers: npt.NDArray[np.int32] = field(default_factory=_no_writers)
    readers: npt.NDArray[np.int32] = field(default_factory=_no_writers)
    accesses: list[TensorAccess] = field(default_factory=list)
    allocations: dict[int, TensorColumns] = field(default_factory=dict)
    freed: npt.NDArray[np.int32] = field(default_factory=lambda: np.full(COLUMNS, -1, dtype=np.int32))
    relinquished: int | None = None
    """Site at which the permit to allocate was given up."""

    @property
    def allocated(self) -> npt.NDArray[np.bool_]:
        """Which columns are allocated: of the shape (columns,)."""
        columns = np.zeros(COLUMNS, dtype=np.bool_)
        for allocation in self.allocations.values():
            columns[allocation.column : allocation.column + allocation.columns] = True
        return columns

    def allocate(self, columns: int, site: int, warp: int, group: int) -> int | None:
        """Allocate the first free columns, aligned to their number; return the first, None if there are none."""
        used = self.allocated
        for start in range(0, COLUMNS - columns + 1, columns):
            if not used[start : start + columns].any():
                self.allocations[start] = TensorColumns(start, columns, site, warp, group)
                self.writers[:, start : start + columns] = -1
                self.readers[:, start : start + columns] = -1
                self.freed[start : start + columns] = -1
                return start
        return None

    def free(self, column: int, site: int) -> None:
        """Free an allocation."""
        allocation = self.allocations.pop(column)
        self.freed[column : column + allocation.columns] = site

    def note(self, access: TensorAccess) -> int:
        """Add an access, and return its number."""
        self.accesses.append(access)
        return len(self.accesses) - 1

    def note_read(self, cells: CellRange, access: TensorAccess) -> None:
        """Note that an access reads cells."""
        self.readers[cells.stripes] = self.note(access)

    def of(self, numbers: npt.NDArray[np.int32]) -> list[TensorAccess]:
        """Return the accesses with some numbers, each once; -1 is none.

        ``numbers`` has the shape (stripes, columns).
        """
        first = int(numbers.flat[0])
        distinct = [first] if (numbers == first).all() else np.unique(numbers).tolist()
        return [self.accesses[number] for number in distinct if number >= 0]

"""Conflicts in shared memory: accesses of two threads to one address, where addresses follow from the thread index.

The addresses of all threads are enumerated (:mod:`.thread_affine`) and compared at the granularity of a word, or of a
byte if any access is not a multiple of a word. What no two threads share, such as ``s[tid]``, cannot race whatever the
schedule, and needs no instrumentation.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.analysis.thread_affine import PerThreadValues
from gpuemu_lsp.engine.emulator.ir.accesses import MemoryAccess

_MAX_SHARED_BYTES = 1 << 18
"""Bytes of shared memory, and threads: more than any GPU has."""

_MAX_CELLS = 1 << 20
"""Cells that are compared: beyond this the analysis costs more time than the instrumentation that it saves."""

_Cells: TypeAlias = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]
"""Two arrays of one length: a thread, and the number of a cell it accesses."""


def conflicting_accesses(group: Iterable[MemoryAccess], threads: PerThreadValues) -> frozenset[tuple[int, bool]]:
    """Return the keys of accesses in a group to cells that another thread may access, at least one of both writing.

    All accesses conflict if one of them has an address that does not follow from the thread index, or if there are too
    many cells.
    """
    live = [access for access in group if threads.reaching(access.block, access.instruction.guard).any()]
    grain = 4 if all(access.size % 4 == 0 for access in live) else 1
    found: list[tuple[MemoryAccess, _Cells]] = []
    left = _MAX_CELLS
    for access in live:
        cells = _cells(access, threads, grain) if left > 0 else None
        # An address that is not known may be any: it conflicts with all the others.
        if cells is None:
            return frozenset(one.key for one in live)
        found.append((access, cells))
        left -= len(cells[0])
    all_threads = _AccessingThreads([cells for _, cells in found])
    writers = _AccessingThreads([cells for access, cells in found if access.is_write])
    # A write conflicts with any access, a read only with writes.
    return frozenset(
        access.key for access, cells in found if (all_threads if access.is_write else writers).any_other(*cells)
    )


def _cells(access: MemoryAccess, threads: PerThreadValues, grain: int) -> _Cells | None:
    """Return the cells of ``grain`` bytes that each thread may access; None if they are not known."""
    address = threads.address(access.address) if access.space == "shared" else None
    if address is None:
        return None
    # An access out of bounds is reported and not performed: it cannot race.
    inside = (address >= 0) & (address + access.size <= _MAX_SHARED_BYTES)
    thread = np.flatnonzero(inside & threads.reaching(access.block, access.instruction.guard))
    count = max(access.size // grain, 1)
    cell = (address[thread] // grain)[:, None] + np.arange(count)
    return np.repeat(thread, count), cell.reshape(-1)


class _AccessingThreads:
    """The lowest and the highest thread that accesses each cell."""

    def __init__(self, accessed: Sequence[_Cells]) -> None:
        size = max((int(cell.max()) + 1 for _, cell in accessed if len(cell)), default=0)
        self._first, self._last = np.full(size, _MAX_SHARED_BYTES), np.full(size, -1)
        for thread, cell in accessed:
            np.minimum.at(self._first, cell, thread)
            np.maximum.at(self._last, cell, thread)

    def any_other(self, thread: npt.NDArray[np.int64], cell: npt.NDArray[np.int64]) -> bool:
        """Whether a thread other than the given one accesses any of these cells."""
        # Cells beyond the array are not accessed by any of these threads.
        seen = cell < len(self._first)
        thread, cell = thread[seen], cell[seen]
        # Any other thread has a lower or a higher index, so the two extremes stand for all of them.
        return bool(((self._first[cell] < thread) | (self._last[cell] > thread)).any())

"""The words by which host threads claim memory, for all of the arena: those of lines, and those of cells."""

from __future__ import annotations

import mmap
import os
from functools import cache
from typing import Final

import numpy as np

from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.devicelib.block_claims import LINE_CELLS, OWNERS_OF_LAUNCH
from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.device_memory.address_space import MAP_NORESERVE

_LAST_OWNER: Final = 1 << 30
"""Numbers of owners start over after this one."""


class ClaimTable:
    """Words for as much of the arena as launches have used so far; owners of earlier launches own nothing.

    Pages use memory from their first claim on: 8 bytes for 32 cells, and 4 for each cell of a line of several threads.
    """

    def __init__(self) -> None:
        self._lines: mmap.mmap | None = None
        self._cells: mmap.mmap | None = None
        self._addresses = (0, 0)
        self._held = 0
        self._first = OWNERS_OF_LAUNCH

    def begin(self, launch: Record, arena: Arena, shift: int) -> int:
        """Let a launch use the table; return the number of its first owner.

        ``shift``: a cell stands for ``1 << shift`` bytes.

        Raises
        ------
        OSError
            If the system refuses the memory.
        """
        cells = (arena.size >> shift) + 2 * LINE_CELLS
        if cells > self._held or self._first > _LAST_OWNER:
            self._lines = self._cells = None
            self._held, self._first = 0, OWNERS_OF_LAUNCH
            cells += cells // 4
            self._lines, self._cells = _reserved(cells // LINE_CELLS * 8 + 8), _reserved(cells * 4)
            lines, single = (np.frombuffer(words, dtype=np.uint8).ctypes.data for words in (self._lines, self._cells))
            self._addresses = int(lines), int(single)
            self._held = cells
        first = self._first
        self._first += OWNERS_OF_LAUNCH
        launch.set(LaunchRecord.CLAIM_LINES, self._addresses[0])
        launch.set(LaunchRecord.CLAIM_CELLS, self._addresses[1])
        launch.set(LaunchRecord.CLAIM_SHIFT, shift)
        launch.set(LaunchRecord.CLAIM_FIRST, first)
        set_owner(launch, first)
        return first


def set_owner(launch: Record, owner: int) -> None:
    """Let accesses that are made with a launch record claim memory for an owner."""
    launch.set(LaunchRecord.CLAIM_OWNER, owner)
    launch.set(LaunchRecord.CLAIM_WHOLE, owner << 32 | 0xFFFFFFFF)


def _reserved(size: int) -> mmap.mmap:
    # Shared although no process shares it: private reservations count against a worker's memory limit.
    return mmap.mmap(-1, size, flags=mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | MAP_NORESERVE)


@cache
def claim_table() -> ClaimTable:
    """Return this process's table: one launch runs at a time."""
    return ClaimTable()


# A shared mapping stays shared after fork.
os.register_at_fork(after_in_child=claim_table.cache_clear)

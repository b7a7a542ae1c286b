"""The memory of the race checker: planes of cells beside the arena, kept from launch to launch."""

from __future__ import annotations

import mmap
import os
from functools import cache

import numpy as np

from gpuemu_lsp.engine.emulator.abi.race_records import Epoch, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.launch.arena import Arena

_MARGIN = 1 << 20
"""Bytes at both ends of each plane: a row of lanes may begin before the arena or end behind it."""

_LAST_EPOCH = 1 << 30


class ShadowPlanes:
    """Cells for as much of the arena as launches have used so far.

    Epochs only grow, so that cells of earlier launches need no reset. The mapping is reserved, not committed.
    """

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None
        self._distance = 0
        self._address = 0
        self._epoch = Epoch.TICK
        self._releases = 0

    def release(self) -> int:
        """Return a number for one more release, unlike any of this or earlier launches."""
        self._releases = self._releases % 0x7FFF_FFFF + 1
        return self._releases

    def install(self, launch: Record, arena: Arena, shift: int) -> None:
        """Tell a launch where its cells lie; there are enough of them for what the arena has handed out."""
        needed = 2 * _MARGIN + (arena.size >> shift << 2)
        if needed > self._distance or self._epoch > _LAST_EPOCH:
            distance = max(self._distance, -(-needed * 5 // 4 // _MARGIN) * _MARGIN)
            # Shared with nobody (a forked process makes its own), but not private: what is only reserved, many times
            # the arena, must not count against what a worker may allocate.
            flags = mmap.MAP_SHARED | mmap.MAP_ANONYMOUS | getattr(mmap, "MAP_NORESERVE", 0)
            # Before a launch has begun there is nothing to keep: the old cells are gone before the new ones come.
            old = self._map if launch.get(LaunchRecord.RACE_PLANES) else None
            self._map = None
            self._map = mmap.mmap(-1, distance * len(ShadowPlane), flags=flags)
            view = np.frombuffer(self._map, dtype=np.uint8)
            self._address = int(view.ctypes.data)
            if old is not None:
                before = np.frombuffer(old, dtype=np.uint8)
                for plane in range(len(ShadowPlane)):
                    kept = before[plane * self._distance : (plane + 1) * self._distance]
                    view[plane * distance : plane * distance + self._distance] = kept
            self._distance = distance
        launch.set(LaunchRecord.RACE_PLANES, self._address + _MARGIN)
        launch.set(LaunchRecord.RACE_PLANE_STRIDE, self._distance)
        launch.set(LaunchRecord.RACE_LINES, self._address + _MARGIN + ShadowPlane.LINE_WRITES * self._distance)

    def begin(self, launch: Record, shift: int, private: int) -> None:
        """Start a launch's epochs behind those of the launches before it."""
        launch.set(LaunchRecord.RACE_CELL_SHIFT, shift)
        launch.set(LaunchRecord.RACE_PRIVATE_START, private)
        if self._epoch > _LAST_EPOCH:
            self._distance, self._epoch = 0, Epoch.TICK
        launch.set(LaunchRecord.RACE_LAUNCH_EPOCH, self._epoch)

    def end(self, highest: int) -> None:
        """Note the last epoch of a launch."""
        self._epoch = max(self._epoch, (highest // Epoch.TICK + 1) * Epoch.TICK)


@cache
def shared_planes() -> ShadowPlanes:
    """Return this process's planes: one launch runs at a time."""
    return ShadowPlanes()


# The memory would be one and the same in both processes, and each would take the other's accesses for its own.
os.register_at_fork(after_in_child=shared_planes.cache_clear)

"""Shadow memory of the race detector: planes of shadow cells for the arena, kept from launch to launch."""

from __future__ import annotations

import mmap
import os
from functools import cache

import numpy as np

from gpuemu_lsp.engine.emulator.abi.race_records import MEMBER_ENTRIES, Epoch, MemberEpochs, ShadowLine, ShadowPlane
from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.launch.arena import Arena, ArenaFullError
from gpuemu_lsp.engine.emulator.launch.device_memory.address_space import MAP_NORESERVE

_MARGIN = 1 << 20
"""Bytes at both ends of each plane: inactive lanes of a row may lie before the arena or after it."""

_LAST_EPOCH = 1 << 30
"""Epochs start over after this one, far below the sign bit, which signed comparisons would see."""


class ShadowPlanes:
    """Shadow cells for as much of the arena as launches have used so far.

    Epochs increase from launch to launch, so that cells need no clearing. The mapping is reserved, not committed.
    """

    def __init__(self) -> None:
        self._map: mmap.mmap | None = None
        self._stride = 0
        self._address = 0
        self._epoch = Epoch.TICK
        self._releases = 0
        self._arena_address = self._shift = 0
        # Entries of earlier launches name earlier epochs, and are not found.
        self._members = np.zeros(MEMBER_ENTRIES * MemberEpochs.SIZE, dtype=np.uint8)

    def next_release(self) -> int:
        """Return the number of a new release, different from those of this and of recent launches."""
        self._releases = self._releases % 0x7FFF_FFFF + 1
        return self._releases

    def install(self, launch: Record, arena: Arena, shift: int) -> None:
        """Give a launch shadow cells for all of the arena that is allocated, keeping the contents of those it has."""
        self._arena_address, self._shift = arena.address, shift
        # What lasts is much larger than what grows: cells for all of it at once, so that none are ever moved.
        extent = arena.capacity if arena.lasting is not None else arena.size
        needed = 2 * _MARGIN + (extent >> shift << 2)
        if needed > self._stride or self._epoch > _LAST_EPOCH:
            spare = needed // 4 if arena.lasting is None else 0
            stride = max(self._stride, -(-(needed + spare) // _MARGIN) * _MARGIN)
            # At the start of a launch there is nothing to keep: the old mapping is dropped first, so that both never
            # exist at once.
            old = self._map if launch.get(LaunchRecord.RACE_PLANES) else None
            # A launch that finds no cells must not use those of the launch before it.
            self._map, self._stride, kept_stride = None, 0, self._stride
            self._map = _reserved(stride * len(ShadowPlane))
            view = np.frombuffer(self._map, dtype=np.uint8)
            self._address = int(view.ctypes.data)
            if old is not None:
                cells = np.frombuffer(old, dtype=np.uint8)
                for plane in range(len(ShadowPlane)):
                    kept = cells[plane * kept_stride : (plane + 1) * kept_stride]
                    view[plane * stride : plane * stride + kept_stride] = kept
            self._stride = stride
        launch.set(LaunchRecord.RACE_PLANES, self._address + _MARGIN)
        launch.set(LaunchRecord.RACE_MEMBERS, int(self._members.ctypes.data))
        launch.set(LaunchRecord.RACE_PLANE_STRIDE, self._stride)
        launch.set(LaunchRecord.RACE_LINES, self._address + _MARGIN + ShadowPlane.LINE_WRITES * self._stride)

    def drop(self) -> None:
        """Give the memory of all cells back, between launches, which cost more time until they have cells again."""
        self._map, self._stride = None, 0

    def forget(self, address: int, size: int) -> None:
        """Give the memory of the cells of a range of addresses back, between launches."""
        if self._map is None:
            return
        low = address - self._arena_address >> self._shift << 2
        high = address + size - self._arena_address >> self._shift << 2
        for plane in ShadowPlane:
            start = plane * self._stride + _MARGIN
            part = (
                ShadowLine.SIZE // ShadowLine.CELLS if plane in (ShadowPlane.LINE_WRITES, ShadowPlane.LINE_READS) else 4
            )
            first = -(-(start + low * part // 4) // mmap.PAGESIZE) * mmap.PAGESIZE
            last = (start + high * part // 4) // mmap.PAGESIZE * mmap.PAGESIZE
            if first < last:
                try:
                    self._map.madvise(mmap.MADV_REMOVE, first, last - first)
                except OSError:  # it is private
                    self._map.madvise(mmap.MADV_DONTNEED, first, last - first)

    def begin(self, launch: Record, shift: int, private: int) -> None:
        """Start a launch's epochs after those of earlier launches.

        ``shift``: a cell stands for ``1 << shift`` bytes; ``private``: lowest address of shared and local memory.
        """
        launch.set(LaunchRecord.RACE_CELL_SHIFT, shift)
        launch.set(LaunchRecord.RACE_PRIVATE_START, private)
        # Starting over needs fresh cells: the stored epochs would be in the future.
        if self._epoch > _LAST_EPOCH:
            self._stride, self._epoch = 0, Epoch.TICK
            self._members[:] = 0
        launch.set(LaunchRecord.RACE_LAUNCH_EPOCH, self._epoch)

    def end(self, highest: int) -> None:
        """Store the highest epoch of a launch that has ended."""
        self._epoch = max(self._epoch, (highest // Epoch.TICK + 1) * Epoch.TICK)


def _reserved(size: int) -> mmap.mmap:
    """Return zeroed memory of which pages are allocated when they are first touched.

    Raises
    ------
    ArenaFullError
        If the system refuses.
    """
    # Not private, although no process shares it (a forked one maps its own): private reservations, here many times
    # the arena, count against a worker's memory limit (RLIMIT_DATA), shared ones do not. Where the system accounts for
    # shared memory in full, it may still accept a private mapping.
    lazily = mmap.MAP_ANONYMOUS | MAP_NORESERVE
    for flags in (mmap.MAP_SHARED | lazily, mmap.MAP_PRIVATE | lazily):
        try:
            return mmap.mmap(-1, size, flags=flags)
        except OSError as error:
            reason = error.strerror or str(error)
    raise ArenaFullError(
        f"{size >> 20} MiB of address space for the race detector, which the system refuses ({reason})"
    )


@cache
def shadow_planes() -> ShadowPlanes:
    """Return this process's planes: one launch runs at a time."""
    return ShadowPlanes()


# A shared mapping stays shared after fork: each process would take the other's accesses for its own.
os.register_at_fork(after_in_child=shadow_planes.cache_clear)

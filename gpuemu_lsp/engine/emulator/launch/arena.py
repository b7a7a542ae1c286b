"""The arena: one reservation of memory that holds everything a launch may access, with a shadow byte per byte.

An access outside every region finds an unaddressable shadow byte instead of crashing the process: regions are separated
by guard zones, and the range check of generated code keeps all addresses inside the reservation.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import numpy as np

from gpuemu_lsp.engine.emulator.abi.memory import ARENA_BYTES, REDZONE, SHADOW_OFFSET, Shadow
from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.launch.device_memory.address_space import (
    Bytes,
    bytes_at,
    make_accessible,
    release,
    reserve_two,
)
from gpuemu_lsp.engine.emulator.launch.device_memory.memory import LastingMemory
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region

_MARGIN = 1 << 16
"""Bytes at both ends of the mapping that are never allocated."""


_APART_BYTES = 128 << 20
"""Distance of memory that is allocated apart: what a launch has not written before may show in undefined values."""


class ArenaFullError(MemoryError):
    """The launch needs more memory than the arena has; the text completes "it needs ..."."""


class Arena:
    """Allocates from low to high addresses and frees everything at once.

    The mapping is reserved, not committed: pages use memory from their first access on. The shadow byte of a byte is
    ``SHADOW_OFFSET`` bytes above it. Memory that lasts from launch to launch comes first, if there is any: launches
    access it where it is.

    Raises
    ------
    ArenaFullError
        If the system refuses the reservation.
    """

    def __init__(self, lasting: LastingMemory | None = None) -> None:
        self.lasting = lasting
        self._first = lasting.size if lasting is not None else 0
        self.capacity = self._first + ARENA_BYTES
        try:
            start = lasting.address if lasting is not None else reserve_two(ARENA_BYTES, SHADOW_OFFSET)
            if lasting is None:
                for address in (start, start + SHADOW_OFFSET):
                    weakref.finalize(self, release, address, ARENA_BYTES)
            make_accessible(start + self._first, ARENA_BYTES)
            make_accessible(start + self._first + SHADOW_OFFSET, ARENA_BYTES)
        except OSError as error:
            reason = error.strerror or str(error)
            size = 2 * ARENA_BYTES >> 20
            raise ArenaFullError(f"{size} MiB of address space, which the system refuses ({reason})") from error
        self._data, self._shadow = bytes_at(start, self.capacity), bytes_at(start + SHADOW_OFFSET, self.capacity)
        self.address = start + _MARGIN
        self._used = self._apart = self._first
        self._end = self.capacity - 2 * _MARGIN
        self.regions: list[Region] = []
        self._records: dict[str, Record] = {}

    @property
    def size(self) -> int:
        """Allocated bytes with guard zones, the extent of the bounds check."""
        return self._used

    @property
    def all_regions(self) -> list[Region]:
        """The regions of the launch, and those that last, freed ones included."""
        return [*self.lasting.regions, *self.regions] if self.lasting is not None else self.regions

    def reset(self) -> None:
        """Free all regions; no byte is addressable any more but those that last, as they were before the launch."""
        # Guard zones stay unaddressable, and they are up to twice as large as the regions.
        for region in self.regions:
            self.shadow(region.address, region.size)[:] = 0
        self._used = self._apart = self._first
        self.regions.clear()
        if self.lasting is not None:
            self.lasting.begin()

    def record(self, name: str, size: int) -> Record:
        """Return a zeroed record outside of the arena, valid until a launch asks for one of this name again.

        A large block of fresh memory is mapped page by page when it is first written; that of the last launch is there.
        """
        known = self._records.get(name)
        if known is None or known.bytes.size != size:
            known = self._records[name] = Record(size)
        else:
            known.bytes[:] = 0
        return known

    def allocate(
        self,
        region_name: str,
        kind: str,
        size: int,
        *,
        alignment: int = 256,
        guard: int = REDZONE,
        offset: int = 0,
        element: int = 1,
    ) -> Region:
        """Allocate ``size`` bytes at ``offset`` from an aligned address, with a guard zone on each side.

        Guard zones have at least ``guard`` bytes. With ``offset`` a buffer is less aligned than a fresh allocation is.

        Raises
        ------
        ArenaFullError
            If the arena is full.
        """
        guard = max(guard, REDZONE)
        start = -(-(self.address + self._used + guard) // alignment) * alignment + offset
        used = start + size + guard - self.address
        if used > self._end:
            raise ArenaFullError(f"a launch with more than {self._end - self._first >> 20} MiB of memory")
        self._used = used
        region = Region(region_name, kind, start, size, element)
        self.regions.append(region)
        return region

    @contextmanager
    def apart(self) -> Iterator[None]:
        """Allocate behind what launches on one thread use, so that what they find in memory does not change."""
        used, self._used = self._used, max(self._used, self._apart, self._first + _APART_BYTES)
        try:
            yield
        finally:
            self._apart, self._used = self._used, used

    def data(self, address: int, size: int) -> Bytes:
        """Return a view of ``size`` bytes at an address."""
        start = address - self.address + _MARGIN
        return self._data[start : start + size]

    def shadow(self, address: int, size: int) -> Bytes:
        """Return a view of the shadow bytes of ``size`` bytes at an address."""
        start = address - self.address + _MARGIN
        return self._shadow[start : start + size]

    def fill(
        self, region: Region, content: Bytes | bytes, *, initialised: bool = True, read_only: bool = False
    ) -> None:
        """Make a region addressable and fill it."""
        self.data(region.address, region.size)[:] = np.frombuffer(content, dtype=np.uint8)
        bits = Shadow.ADDRESSABLE | (Shadow.INITIALISED if initialised else 0) | (Shadow.READ_ONLY if read_only else 0)
        self.shadow(region.address, region.size)[:] = bits

    def contains(self, address: int, size: int = 1) -> bool:
        """Return whether ``size`` bytes from ``address`` on lie inside the arena."""
        return self.address <= address and address + size <= self.address + self._used

    def string(self, address: int, limit: int = 4096) -> bytes:
        """Return the NUL-terminated string at an address, as far as it is addressable, at most ``limit`` bytes."""
        if not self.contains(address):
            return b""
        limit = min(limit, self.address + self._used - address)
        data, shadow = self.data(address, limit), self.shadow(address, limit)
        ends = np.flatnonzero((data == 0) | ((shadow & Shadow.ADDRESSABLE) == 0))
        return bytes(data[: int(ends[0]) if len(ends) else limit])


@cache
def shared_arena() -> Arena:
    """Return this process's arena: one launch runs at a time."""
    return Arena()

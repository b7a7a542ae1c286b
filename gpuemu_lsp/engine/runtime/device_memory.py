"""Device memory that lasts from launch to launch, shared with the program.

Its addresses are those that the program sees. Allocations are never placed where another one was, so that a pointer to
freed memory is recognised for the whole run.
"""

from __future__ import annotations

import mmap
import os
from bisect import bisect_right
from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Bytes
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation, StreamOrder

BASE = 0x5E3D_0000_0000
"""Address of device memory in the program. As a pair of 32-bit numbers its upper half is unlikely: an integer of
24,125, or a float below the smallest normal one."""

SIZE = 64 << 30
"""Bytes of address space; memory is used only where it is touched."""

_ALIGNMENT = 256
_GAP = 4096
_FIRST = 16 << 20
_REFUSED = 4
"""Place of a word in the library's header, which is in front of the first allocation."""

_MAX_FREED = 64 << 20


class MemoryKind(IntEnum):
    """Kinds of memory, as in the library's source; variables are allocated by us."""

    DEVICE = 0
    MANAGED = 1
    PINNED = 2
    VARIABLE = 3


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """Bytes that an operation wrote, for which the host has not waited; ``text`` describes it."""

    operation: StreamOperation
    mask: npt.NDArray[np.bool_] = field(repr=False)
    text: str
    site: CallSite | None


@dataclass(slots=True)
class DeviceAllocation:
    """Memory of one allocation: its address in the program, size in bytes, and the call.

    ``initialised`` has a bool per byte; ``freed`` is the call that freed it, None while it is live. ``variable`` is the
    mangled name of a module variable. ``pending`` has the writes for which the host has not waited, if the program has
    streams.
    """

    address: int
    size: int
    site: CallSite | None
    initialised: npt.NDArray[np.bool_] = field(repr=False)
    freed: CallSite | None = None
    live: bool = True
    kind: MemoryKind = MemoryKind.DEVICE
    variable: str | None = None
    pending: list[PendingWrite] = field(default_factory=list, repr=False)

    def add_write(self, write: PendingWrite, order: StreamOrder) -> None:
        """Add a write in place of those that it hides.

        What is not ordered after an earlier write is not ordered after a later one of the same bytes either: the later
        one alone shows the race, and a loop of launches keeps one mask instead of one for each.
        """
        kept = [
            one
            for one in self.pending
            if not order.precedes(one.operation, write.operation) or (one.mask & ~write.mask).any()
        ]
        self.pending = [*kept, write]

    @property
    def of_host(self) -> bool:
        """Whether the host can access it without a call."""
        return self.kind in (MemoryKind.MANAGED, MemoryKind.PINNED)

    @property
    def description(self) -> str:
        """Size and place, for messages."""
        if self.variable is not None:
            return f"{self.size} bytes, the variable `{demangled_name(self.variable)}`"
        place = f", allocated at {self.site}" if self.site else ""
        return f"{self.size} bytes{place}"


class DeviceMemory:
    """The file behind device memory, and its allocations by address."""

    def __init__(self) -> None:
        self.descriptor = os.memfd_create("gpuemu-device-memory")
        os.ftruncate(self.descriptor, SIZE)
        self._map = mmap.mmap(self.descriptor, SIZE, flags=mmap.MAP_SHARED)
        self._bytes: Bytes = np.frombuffer(self._map, dtype=np.uint8)
        self._next = BASE + _FIRST
        self._addresses: list[int] = []
        self._allocations: list[DeviceAllocation] = []
        self.used = 0
        self.generation = 0
        """A number that changes whenever memory may have other contents than before."""

    @property
    def live(self) -> tuple[DeviceAllocation, ...]:
        """The allocations that have not been freed."""
        return tuple(one for one in self._allocations if one.live)

    @property
    def refused_process(self) -> bool:
        """Whether a process other than the one that has the connection made a CUDA call."""
        return bool(self._bytes[_REFUSED : _REFUSED + 4].any())

    def allocate(
        self, size: int, site: CallSite | None, limit: int, kind: MemoryKind = MemoryKind.DEVICE
    ) -> DeviceAllocation | None:
        """Allocate ``size`` bytes; None if live allocations would exceed ``limit`` bytes or addresses run out."""
        if self.used + size > limit or self._next + size + _GAP > BASE + SIZE:
            return None
        # What the host writes to memory that it shares with the device is not seen: all of that is initialised.
        known = np.zeros(size, np.bool_) if kind is MemoryKind.DEVICE else np.ones(size, np.bool_)
        allocation = DeviceAllocation(self._next, size, site, known, kind=kind)
        self.used += size
        self.generation += 1
        self._addresses.append(allocation.address)
        self._allocations.append(allocation)
        self._next = -(-(self._next + size + _GAP) // _ALIGNMENT) * _ALIGNMENT
        return allocation

    def free(self, allocation: DeviceAllocation, site: CallSite | None) -> None:
        """Free an allocation and give its whole pages back to the system."""
        allocation.live, allocation.freed = False, site
        allocation.pending.clear()
        self.used -= allocation.size
        self.generation += 1
        allocation.initialised = np.zeros(0, np.bool_)
        page = mmap.PAGESIZE
        low = -(-(allocation.address - BASE) // page) * page
        high = (allocation.address - BASE + allocation.size) // page * page
        if high > low:
            self._map.madvise(mmap.MADV_REMOVE, low, high - low)

    def find(self, address: int) -> DeviceAllocation | None:
        """Return the allocation, live or freed, that an address is in or just past the end of."""
        index = bisect_right(self._addresses, address) - 1
        if index < 0:
            return None
        allocation = self._allocations[index]
        return allocation if address <= allocation.address + allocation.size else None

    def nearest(self, address: int) -> DeviceAllocation | None:
        """Return the last allocation that begins at or before an address."""
        index = bisect_right(self._addresses, address) - 1
        return self._allocations[index] if index >= 0 else None

    def view(self, allocation: DeviceAllocation) -> Bytes:
        """Return the bytes of an allocation; writing to them writes device memory."""
        low = allocation.address - BASE
        return self._bytes[low : low + allocation.size]

    def addresses_in(self, allocation: DeviceAllocation) -> list[DeviceAllocation]:
        """Return the allocations whose addresses are in an allocation's memory, in aligned words.

        Those that were freed are among them, if they are small.
        """
        words = self.view(allocation)[: allocation.size // 8 * 8].view(np.uint64)
        found = np.unique(words[(words >= np.uint64(BASE)) & (words < np.uint64(self._next))])
        targets = {one.address: one for one in map(self.find, found.tolist()) if one is not None}
        return [one for one in targets.values() if one.live or one.size <= _MAX_FREED]

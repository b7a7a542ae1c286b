"""Device memory: allocations in host memory, of which the emulator gets copies for each launch."""

from __future__ import annotations

import bisect
import ctypes
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

ALIGNMENT = 256
"""Alignment of cudaMalloc's allocations in bytes (CUDA C++ programming guide, device memory accesses)."""
_FILL = 0xCB
"""Byte that fresh memory holds, which shows in results: large in magnitude in every format."""


@dataclass(slots=True, eq=False)
class Allocation:
    """One allocation.

    ``address`` is that of its first byte; ``data`` its bytes, 1-D uint8. ``initialized`` is a bool per byte, None if
    the host can write the memory without a call: every byte then counts as initialised.
    """

    address: int
    data: npt.NDArray[np.uint8]
    initialized: npt.NDArray[np.bool_] | None

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        return int(self.data.size)

    def set_initialized(self, offset: int, size: int) -> None:
        """Mark ``size`` bytes from ``offset`` as initialised."""
        if self.initialized is not None:
            self.initialized[offset : offset + size] = True


class DeviceMemory:
    """The live allocations of a device, found by address."""

    def __init__(self, total: int) -> None:
        self.total = total
        self._addresses: list[int] = []
        self._allocations: dict[int, Allocation] = {}

    @property
    def used(self) -> int:
        """Return the size of all allocations in bytes."""
        return sum(allocation.size for allocation in self._allocations.values())

    def allocate(self, size: int, *, host_writes: bool = False) -> Allocation:
        """Allocate ``size`` bytes.

        ``host_writes`` says that the program may write them through a host pointer, as in managed and mapped memory.
        """
        whole = np.full(size + ALIGNMENT, _FILL, np.uint8)
        start = -whole.ctypes.data % ALIGNMENT
        data = whole[start : start + size]
        return self._add(Allocation(data.ctypes.data, data, None if host_writes else np.zeros(size, np.bool_)))

    def register(self, address: int, size: int) -> Allocation:
        """Make ``size`` bytes of the program's host memory accessible to the device."""
        data = np.ctypeslib.as_array((ctypes.c_uint8 * size).from_address(address))
        return self._add(Allocation(address, data, None))

    def free(self, address: int) -> bool:
        """Free the allocation that begins at ``address``; return whether there is one."""
        if self._allocations.pop(address, None) is None:
            return False
        self._addresses.remove(address)
        return True

    def find(self, address: int) -> Allocation | None:
        """Return the allocation that holds the byte at ``address``, None if there is none."""
        index = bisect.bisect_right(self._addresses, address) - 1
        if index < 0:
            return None
        allocation = self._allocations[self._addresses[index]]
        return allocation if address < allocation.address + max(allocation.size, 1) else None

    def clear(self) -> None:
        """Free everything."""
        self._addresses.clear()
        self._allocations.clear()

    def _add(self, allocation: Allocation) -> Allocation:
        if allocation.address not in self._allocations:
            bisect.insort(self._addresses, allocation.address)
        self._allocations[allocation.address] = allocation
        return allocation

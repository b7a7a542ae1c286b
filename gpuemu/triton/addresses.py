"""Memory that a kernel reaches through addresses in other memory: tensors of ``data_ptr()`` values.

An integer is an address if it lies in the storage of a tensor that is alive when the kernel is launched, or just past
its end. That decides for 64-bit elements of tensors and 64-bit integer arguments. Integers below 4 GiB are addresses
only if they are those of a heap at the low end of memory and all of the tensor's elements but zeros are. An address of
a tensor that has been freed stays an integer, and an access through it is out of bounds.
"""

from __future__ import annotations

import bisect
import gc
import sys
from dataclasses import replace
from typing import Any

import numpy as np

from gpuemu.triton.storage import TensorMemory, memory_of
from gpuemu_lsp.engine.execution import Buffer

ADDRESSES = range(2**32, 2**47)
"""Addresses of a process's memory on Linux; most integers are smaller, floating-point numbers larger."""
_LOW_HEAP = 2**16
"""The lowest address of a heap. Executables that are not position-independent have it right behind them."""


class LiveMemory:
    """The storages of the tensors that are alive, looked up when the first address is asked for."""

    def __init__(self) -> None:
        self._starts: list[int] | None = None
        self._storages: list[TensorMemory] = []

    def memory_at(self, address: int) -> TensorMemory | None:
        """Return the storage that contains an address, with the address as that of the first element; else None."""
        if self._starts is None:
            self._storages = sorted(_live_storages(), key=lambda one: one.address)
            self._starts = [one.address for one in self._storages]
        index = bisect.bisect_right(self._starts, address) - 1
        if index < 0 or address - self._starts[index] > self._storages[index].data.size:
            return None
        found = self._storages[index]
        return TensorMemory(found.address, found.data, address - found.address, found.item_size)


def reachable_memory(memory: dict[str, TensorMemory], live: LiveMemory) -> tuple[set[str], tuple[Buffer, ...]]:
    """Return the names of buffers that hold addresses, and the buffers whose addresses they hold.

    ``memory`` has the memory of the arguments by name; that of the buffers is added. A buffer is named by an element
    that has its address, as C would: ``addresses[2]``.
    """
    known = {where.address for where in memory.values()}
    tables: set[str] = set()
    reachable: list[Buffer] = []
    left = list(memory.items())
    while left:
        name, table = left.pop()
        if table.item_size != 8:
            continue
        for index, where in _addressed(table, live):
            tables.add(name)
            if where.address not in known:
                known.add(where.address)
                label = f"{name}[{index}]"
                memory[label] = where
                reachable.append(Buffer(label, where.data, element_size=where.item_size, host_address=where.address))
                left.append((label, where))
    # In the end, as what the first table reaches may hold addresses itself.
    return tables, tuple(replace(one, holds_addresses=one.name in tables) for one in reachable)


def _addressed(table: TensorMemory, live: LiveMemory) -> list[tuple[int, TensorMemory]]:
    """Return the memory that elements of a table have the address of, with the number of the element."""
    words = table.data[: table.data.size // 8 * 8].view(np.int64)
    places = np.flatnonzero((words >= ADDRESSES.start) & (words < ADDRESSES.stop))
    low = not len(places)
    if low:
        places = np.flatnonzero(words)
        # Cheap to test, and it excludes most tensors of indices.
        if not len(places) or words[places].min() < _LOW_HEAP or (words[places] % 16).any():
            return []
    if words[places].max() >= ADDRESSES.stop:
        return []
    found = [(int(place), live.memory_at(int(words[place]))) for place in places]
    known = [(place, where) for place, where in found if where is not None]
    return [] if low and len(known) < len(found) else known


def _live_storages() -> list[TensorMemory]:
    """Return the storages of all tensors of PyTorch's that Python knows; those of other devices have no memory here."""
    torch: Any = sys.modules.get("torch")
    found: dict[int, TensorMemory] = {}
    if torch is None:
        return []
    for one in gc.get_objects():
        if issubclass(type(one), torch.Tensor):
            try:
                where = memory_of(one)
            except (RuntimeError, NotImplementedError, TypeError):
                # A wrapper of other tensors, or a tensor without memory, such as one on the device ``meta``.
                continue
            # Of several tensors on one storage a table, whose elements are the largest, decides.
            known = found.get(where.address)
            if where.data.size and (known is None or known.item_size < where.item_size):
                found[where.address] = where
    return list(found.values())

"""Accesses of the host to memory that it shares with the device, before it has waited for what writes it.

The program's pages that such work has written whole are not accessible to it until a call waits, and those that copies
read whole are not writable: an access is a fault, which the runtime library reports. A page that is accessed in part is
left, as the host may use the rest of it.
"""

from __future__ import annotations

import mmap
import re
from dataclasses import replace
from functools import lru_cache

import numpy as np

from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation, PendingAccess
from gpuemu_lsp.engine.runtime.memory.byte_sets import ByteSet
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.protocol.calls import WatchedPages
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation, StreamOrder

_SIGNALS = re.compile(r"\.sys\b|\.volatile\b|\.mmio\b")
_PAGE = mmap.PAGESIZE


def may_signal(module: Module) -> bool:
    """Return whether kernels of a module may tell the host that data are there while they run."""
    return _signals(module.text)


@lru_cache(maxsize=64)
def _signals(text: str) -> bool:
    return _SIGNALS.search(text) is not None


class SharedMemory:
    """The allocations of one run that the host can access, with what is written to them and what calls read of them."""

    def __init__(self, memory: DeviceMemory, order: StreamOrder, findings: RunFindings) -> None:
        self._memory = memory
        self._order = order
        self._findings = findings
        self._shared: dict[int, DeviceAllocation] = {}

    def add(self, allocation: DeviceAllocation, write: PendingAccess) -> None:
        """Note that an operation writes an allocation, or that a call reads it."""
        if allocation.of_host and not write.signals:
            self._shared[allocation.address] = allocation

    def signal(self, operation: StreamOperation) -> None:
        """Note a launch that may tell the host that it runs: what has ended before it need not be waited for."""
        for allocation in self._shared.values():
            for accesses in (allocation.pending, allocation.reads):
                accesses[:] = [
                    replace(one, signals=True) if self._order.precedes(one.operation, operation) else one
                    for one in accesses
                ]

    def watched(self) -> tuple[WatchedPages, ...]:
        """Return the pages that wait for a call of the host."""
        readable: list[WatchedPages] = []
        inaccessible: list[WatchedPages] = []
        for allocation in list(self._shared.values()):
            allocation.drop_known(self._order)
            written = [one.accessed for one in allocation.pending if not one.signals]
            read = [one.accessed for one in allocation.reads if not one.signals]
            if not (written or read) or not allocation.live:
                del self._shared[allocation.address]
                continue
            for address, size in _whole_pages(allocation, read):
                readable.append(WatchedPages(address, size, readable=True))
            for address, size in _whole_pages(allocation, written):
                inaccessible.append(WatchedPages(address, size, readable=False))
        return (*readable, *inaccessible)

    def access(self, address: int, site: CallSite | None, *, is_write: bool) -> None:
        """Report an access of the host to what an operation accesses for which it has not waited."""
        allocation = self._memory.find(address)
        if allocation is None:
            return
        byte = ByteSet.of(slice(address - allocation.address, address - allocation.address + 1))
        for one in allocation.reads if is_write else allocation.pending:
            if not one.signals and not self._order.known(one.operation) and one.accessed.overlaps(byte):
                verbs, rule = ("overwrites", "reads"), "api/unsynchronized-write"
                if not is_write:
                    verbs, rule = ("reads", "writes"), "api/unsynchronized-read"
                message = f"the host {verbs[0]} what {one.text} {verbs[1]}, and no call has waited for that"
                self._findings.host(rule, message, site, allocation, one)
                return


def _whole_pages(allocation: DeviceAllocation, waiting: list[ByteSet]) -> list[tuple[int, int]]:
    """Return the addresses and sizes of the pages of which all bytes are in one of the sets.

    Bytes of the first and the last page that are of no allocation do not matter: another one has pages of its own.
    """
    if not waiting:
        return []
    first, last = min(one.low for one in waiting), max(one.high for one in waiting)
    low = (allocation.address + first) // _PAGE * _PAGE
    high = -(-(allocation.address + last) // _PAGE) * _PAGE
    waits = np.zeros(high - low, np.bool_)
    for one in waiting:
        at = allocation.address + one.low - low
        waits[at : at + len(one.mask)] |= one.mask
    waits[: max(allocation.address - low, 0)] = True
    waits[allocation.address + allocation.size - low :] = True
    whole = np.flatnonzero(waits.reshape(-1, _PAGE).all(axis=1))
    result = []
    for part in np.split(whole, np.flatnonzero(np.diff(whole) > 1) + 1):
        if part.size:
            result.append((low + int(part[0]) * _PAGE, int(part.size) * _PAGE))
    return result

"""Accesses of the host to memory that it shares with the device, before it has waited for what writes it.

The program's pages that such work has written whole are not accessible to it until a call waits: an access is a fault,
which the runtime library reports. A page that is written in part is left, as the host may use the rest of it.
"""

from __future__ import annotations

import mmap
import re
from functools import lru_cache

import numpy as np

from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.runtime.byte_sets import ByteSet
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.device_memory import DeviceAllocation, DeviceMemory, PendingWrite
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.stream_order import StreamOrder

_SIGNALS = re.compile(r"\.sys\b|\.volatile\b|\.mmio\b")
_PAGE = mmap.PAGESIZE


def may_signal(module: Module) -> bool:
    """Return whether kernels of a module may tell the host that data are there while they run."""
    return _signals(module.text)


@lru_cache(maxsize=64)
def _signals(text: str) -> bool:
    return _SIGNALS.search(text) is not None


class HostAccesses:
    """The allocations of one run that the host can access, with what is written to them."""

    def __init__(self, memory: DeviceMemory, order: StreamOrder, findings: RunFindings) -> None:
        self._memory = memory
        self._order = order
        self._findings = findings
        self._written: dict[int, DeviceAllocation] = {}

    def add(self, allocation: DeviceAllocation, write: PendingWrite) -> None:
        """Note that an operation writes an allocation."""
        if allocation.of_host and not write.signals:
            self._written[allocation.address] = allocation

    def ranges(self) -> list[int]:
        """Return the addresses and sizes of the pages that wait for a call of the host."""
        result: list[int] = []
        for allocation in list(self._written.values()):
            allocation.pending = [one for one in allocation.pending if not self._order.known(one.operation)]
            waiting = [one.written for one in allocation.pending if not one.signals]
            if not waiting or not allocation.live:
                del self._written[allocation.address]
                continue
            result += _whole_pages(allocation, waiting)
        return result

    def access(self, address: int, site: CallSite | None, *, is_write: bool) -> None:
        """Report an access of the host, if it reads what an operation writes for which it has not waited."""
        allocation = self._memory.find(address)
        if allocation is None or is_write:
            return
        byte = ByteSet.of(slice(address - allocation.address, address - allocation.address + 1))
        for write in allocation.pending:
            if not write.signals and not self._order.known(write.operation) and write.written.overlaps(byte):
                message = f"the host reads what {write.text} writes, and no call has waited for that"
                self._findings.host("api/unsynchronized-read", message, site, allocation, write)
                return


def _whole_pages(allocation: DeviceAllocation, waiting: list[ByteSet]) -> list[int]:
    """Return the addresses and sizes of the pages of which all bytes are in one of the sets.

    Bytes of the first and the last page that are of no allocation do not matter: another one has pages of its own.
    """
    first, last = min(one.low for one in waiting), max(one.high for one in waiting)
    low = (allocation.address + first) // _PAGE * _PAGE
    high = -(-(allocation.address + last) // _PAGE) * _PAGE
    written = np.zeros(high - low, np.bool_)
    for one in waiting:
        at = allocation.address + one.low - low
        written[at : at + len(one.mask)] |= one.mask
    written[: max(allocation.address - low, 0)] = True
    written[allocation.address + allocation.size - low :] = True
    whole = np.flatnonzero(written.reshape(-1, _PAGE).all(axis=1))
    result = []
    for part in np.split(whole, np.flatnonzero(np.diff(whole) > 1) + 1):
        if part.size:
            result += [low + int(part[0]) * _PAGE, int(part.size) * _PAGE]
    return result

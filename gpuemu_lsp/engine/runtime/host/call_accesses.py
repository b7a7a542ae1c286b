"""Accesses of copies, fills and library functions to device memory: ranges, order and initialised bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.host.shared_memory import SharedMemory
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation, PendingAccess, UnorderedWrites
from gpuemu_lsp.engine.runtime.memory.byte_sets import ByteSet, Span
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation, StreamOrder

_ELEMENT_BYTES = 8
"""So many unwritten bytes, from a multiple of their number on, are an element and not the padding of a structure."""


@dataclass(frozen=True, slots=True)
class MemorySpan:
    """Bytes of an allocation that a call reads or writes."""

    allocation: DeviceAllocation
    span: Span

    def overlaps(self, other: MemorySpan) -> bool:
        """Return whether some bytes are in both, and these are not the same bytes."""
        if self.allocation is not other.allocation:
            return False
        if isinstance(self.span, slice) and isinstance(other.span, slice):
            return self.span != other.span and max(self.span.start, other.span.start) < min(
                self.span.stop, other.span.stop
            )
        first, second = ByteSet.of(self.span), ByteSet.of(other.span)
        return first.overlaps(second) and not (first.includes(second) and second.includes(first))


@dataclass(frozen=True, slots=True)
class StreamRace:
    """Two accesses on different streams that no event orders: a sentence about both, and the earlier one."""

    message: str
    allocation: DeviceAllocation
    other: PendingAccess


class CallAccesses:
    """The accesses of operations to the device memory of one run, and what is wrong with them.

    A call of the host begins an operation in its stream, says which bytes it reads and writes, and gets the findings.
    """

    def __init__(self, memory: DeviceMemory, order: StreamOrder, findings: RunFindings, shared: SharedMemory) -> None:
        self._shared = shared
        self._memory = memory
        self._order = order
        self._findings = findings

    def bytes_at(
        self, address: int, width: int, pitch: int, rows: int, verb: str, site: CallSite | None, name: str = "the call"
    ) -> MemorySpan | None:
        """Return the bytes of ``rows`` of ``width``, ``pitch`` apart; None, with a finding, if some are not there.

        ``name`` is the subject of the finding, and ``verb`` what it does.
        """
        extent = (rows - 1) * pitch + width
        allocation = self._memory.nearest(address)
        problem = _range_problem(allocation, address, extent)
        if problem is not None or allocation is None:
            text = f"{name} {verb} {extent} bytes {problem}"
            self._findings.host("api/invalid-copy", text, site, allocation)
            return None
        offset = address - allocation.address
        if rows == 1 or width == pitch:
            return MemorySpan(allocation, slice(offset, offset + width * rows))
        places: npt.NDArray[np.int64] = offset + pitch * np.arange(rows)[:, None] + np.arange(width)
        return MemorySpan(allocation, places.reshape(-1))

    def read(
        self,
        operation: StreamOperation,
        part: MemorySpan,
        site: CallSite | None,
        uninitialised: str | None,
        *,
        pending: bool,
        to_host: bool = False,
    ) -> None:
        """Report what is wrong with a read; ``uninitialised`` is the text for bytes of which none was ever written.

        It is noted if it is ``pending``: the call may return before it has read. ``to_host``: the host gets the bytes.
        """
        allocation = part.allocation
        for write in self.unordered(operation, allocation):
            if write.accessed.overlaps(ByteSet.of(part.span)):
                message = (
                    f"{operation.name} reads bytes that {write.text} writes on another stream: no event orders them"
                )
                self.report(StreamRace(message, allocation, write), site)
                return
        if pending:
            self.note(allocation, operation, part.span, site, reads=True)
        if uninitialised is None or not allocation.missing:
            return
        if not self._memory.any_initialised(allocation, part.span):
            self._findings.host("api/uninitialized-copy", uninitialised, site, allocation)
        elif to_host:
            self._report_unwritten_part(part, site)

    def _report_unwritten_part(self, part: MemorySpan, site: CallSite | None) -> None:
        """Report a copy to the host of bytes of which some were never written, if they are not those of padding.

        It is information: the program may know how many of the bytes it may use.
        """
        unwritten = ~self._memory.initialised(part.allocation, part.span)
        changes = np.flatnonzero(np.diff(unwritten, prepend=False, append=False))
        begins, ends = changes[::2], changes[1::2]
        elements = (ends - begins >= _ELEMENT_BYTES) & (begins % _ELEMENT_BYTES == 0)
        if not elements.any():
            return
        first = int(np.argmax(elements))
        text = (
            f"the call copies {unwritten.size} bytes to the host of which {np.count_nonzero(unwritten)} were never "
            f"written, such as {begins[first]} to {ends[first] - 1}"
        )
        self._findings.host("api/uninitialized-copy", text, site, part.allocation, severity=Severity.INFORMATION)

    def write(
        self,
        operation: StreamOperation,
        part: MemorySpan,
        site: CallSite | None,
        known: npt.NDArray[np.bool_] | None = None,
        *,
        changes: bool = True,
    ) -> None:
        """Note a write, after which the bytes are initialised where ``known``, and report what is wrong with it.

        ``known`` has the shape (bytes,); all are if it is None. Without ``changes`` memory holds what is written.
        """
        allocation = part.allocation
        race = self.overwrites(operation, allocation, ByteSet.of(part.span), operation.name)
        if race is not None:
            self.report(race, site)
        else:
            self.note(allocation, operation, part.span, site, reads=False)
        if changes:
            self._memory.initialise(allocation, part.span, known)

    def note(
        self,
        allocation: DeviceAllocation,
        operation: StreamOperation,
        span: Span,
        site: CallSite | None,
        *,
        reads: bool,
    ) -> None:
        """Note an access of a call, if later work may conflict with it."""
        if not self._order.single or allocation.of_host:
            access = PendingAccess(operation, ByteSet.of(span), f"{operation.name} at {site}", site, reads=reads)
            allocation.add(access, self._order)
            self._shared.add(allocation, access)

    def overwrites(
        self,
        operation: StreamOperation,
        allocation: DeviceAllocation,
        written: ByteSet,
        text: str,
        *,
        atomic: bool = False,
    ) -> StreamRace | None:
        """Return the race of a write with the first access on another stream that it conflicts with, None if none does.

        ``text`` describes what writes. ``atomic``: by atomic operations only.
        """
        allocation.drop_known(self._order)
        for access in (*allocation.pending, *allocation.reads):
            if atomic and access.atomic:
                continue
            if not self._order.precedes(access.operation, operation) and access.accessed.overlaps(written):
                verb = "reads" if access.reads else "writes"
                message = f"{text} overwrites bytes that {access.text} {verb} on another stream: no event orders them"
                return StreamRace(message, allocation, access)
        return None

    def report(self, race: StreamRace, site: CallSite | None) -> None:
        """Report a race of the call at ``site``."""
        self._findings.host("api/stream-race", race.message, site, race.allocation, race.other)

    def use(self, allocation: DeviceAllocation, operation: StreamOperation, text: str, site: CallSite | None) -> None:
        """Note that a launch has a pointer to an allocation: it must not be freed before that has ended."""
        nothing = ByteSet(0, np.zeros(0, np.bool_))
        allocation.uses[operation.stream] = PendingAccess(operation, nothing, text, site, reads=True)

    def free(self, allocation: DeviceAllocation, stream: int, site: CallSite | None) -> None:
        """Report the first access on another stream that may not have ended when an allocation is freed on a stream."""
        operation = self._order.begin(stream)
        for access in (*allocation.pending, *allocation.reads, *allocation.uses.values()):
            if not self._order.precedes(access.operation, operation):
                verb = "reads" if access.reads else "writes"
                message = f"the call frees what {access.text} {verb} on another stream: no event orders them"
                self.report(StreamRace(message, allocation, access), site)
                return

    def all_unordered(self, operation: StreamOperation) -> UnorderedWrites:
        """Return the allocations with writes that may not have ended when an operation begins, and these writes."""
        pending = (allocation for allocation in self._memory.live if allocation.pending)
        unordered = ((allocation, self.unordered(operation, allocation)) for allocation in pending)
        return [(allocation, writes) for allocation, writes in unordered if writes]

    def unordered(self, operation: StreamOperation, allocation: DeviceAllocation) -> list[PendingAccess]:
        """Return the writes to an allocation that may not have ended when an operation begins."""
        allocation.drop_known(self._order)
        return [one for one in allocation.pending if not self._order.precedes(one.operation, operation)]


def _range_problem(allocation: DeviceAllocation | None, address: int, size: int) -> str | None:
    """Return what is wrong with a range of device memory, None if it is inside a live allocation."""
    if allocation is None:
        return "outside every allocation"
    offset = address - allocation.address
    if not allocation.live:
        return f"from byte {offset} of memory that was freed at {allocation.freed}"
    if offset + size > allocation.size:
        return f"from byte {offset} of an allocation of {allocation.size} bytes, past its end"
    return None

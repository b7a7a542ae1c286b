"""Accesses of copies, fills and library functions to device memory: ranges, order and initialised bytes."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.runtime.allocations import DeviceAllocation, PendingAccess
from gpuemu_lsp.engine.runtime.byte_sets import ByteSet, Span
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.host_access import HostAccesses
from gpuemu_lsp.engine.runtime.stream_order import CopyDirection, StreamOperation, StreamOrder


@dataclass(frozen=True, slots=True)
class TransferredBytes:
    """Bytes of an allocation that a call reads or writes."""

    allocation: DeviceAllocation
    span: Span

    def overlaps(self, other: TransferredBytes) -> bool:
        """Return whether some bytes are in both, and these are not the same bytes."""
        if self.allocation is not other.allocation:
            return False
        if isinstance(self.span, slice) and isinstance(other.span, slice):
            return self.span != other.span and max(self.span.start, other.span.start) < min(
                self.span.stop, other.span.stop
            )
        mine, theirs = ByteSet.of(self.span), ByteSet.of(other.span)
        return mine.overlaps(theirs) and not (mine.includes(theirs) and theirs.includes(mine))


class Transfers:
    """The accesses of the host's calls to the device memory of one run, and what is wrong with them."""

    def __init__(self, memory: DeviceMemory, order: StreamOrder, findings: RunFindings, host: HostAccesses) -> None:
        self._host = host
        self._memory = memory
        self._order = order
        self._findings = findings

    def bytes_at(
        self, address: int, width: int, pitch: int, rows: int, verb: str, site: CallSite | None
    ) -> TransferredBytes | None:
        """Return the bytes of ``rows`` of ``width``, ``pitch`` apart; None, with a finding, if some are not there."""
        extent = (rows - 1) * pitch + width
        allocation = self._memory.nearest(address)
        problem = _range_problem(allocation, address, extent)
        if problem is not None or allocation is None:
            text = f"the call {verb} {extent} bytes {problem}"
            self._findings.host("api/invalid-copy", text, site, allocation)
            return None
        offset = address - allocation.address
        if rows == 1 or width == pitch:
            return TransferredBytes(allocation, slice(offset, offset + width * rows))
        places: npt.NDArray[np.int64] = offset + pitch * np.arange(rows)[:, None] + np.arange(width)
        return TransferredBytes(allocation, places.reshape(-1))

    def directed(
        self,
        direction: CopyDirection,
        to: TransferredBytes | None,
        origin: TransferredBytes | None,
        site: CallSite | None,
    ) -> bool:
        """Return whether a copy's direction matches its memory, with a finding if not; None is memory of the host only.

        Both sides of memory that host and device share are right.
        """
        wanted = (direction.to_device, to, "target"), (direction.from_device, origin, "source")
        for device, part, side in wanted if direction is not CopyDirection.DEFAULT and (to or origin) else ():
            if device and part is None:
                problem = f"its {side} is memory of the host"
            elif not device and part is not None and not part.allocation.of_host:
                problem = f"its {side} is memory of the device"
            else:
                continue
            text = f"the call copies {direction.text}, but {problem}"
            self._findings.host("api/invalid-copy", text, site, part.allocation if part is not None else None)
            return False
        return True

    def read(
        self,
        operation: StreamOperation,
        part: TransferredBytes,
        site: CallSite | None,
        uninitialised: str | None,
        *,
        pending: bool,
    ) -> None:
        """Report what is wrong with a read; ``uninitialised`` is the text for bytes of which none was ever written.

        It is noted if it is ``pending``: the call may return before it has read.
        """
        allocation = part.allocation
        for write in self.unordered(operation, allocation):
            if write.accessed.overlaps(ByteSet.of(part.span)):
                message = f"the call reads bytes that {write.text} writes on another stream: no event orders them"
                self._findings.host("api/stream-race", message, site, allocation, write)
                return
        if pending:
            self.note(allocation, operation, part.span, site, reads=True)
        if uninitialised is not None and not self._memory.any_initialised(allocation, part.span):
            self._findings.host("api/uninitialized-copy", uninitialised, site, allocation)

    def write(
        self,
        operation: StreamOperation,
        part: TransferredBytes,
        site: CallSite | None,
        known: npt.NDArray[np.bool_] | None = None,
        *,
        changes: bool = True,
    ) -> None:
        """Note a write, after which the bytes are initialised where ``known``, and report what is wrong with it.

        All of them are if ``known`` is None. Without ``changes`` memory holds what is written already.
        """
        allocation = part.allocation
        if not self.overwrites(operation, allocation, ByteSet.of(part.span), "the call", site):
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
            access = PendingAccess(operation, ByteSet.of(span), f"the call at {site}", site, reads=reads)
            allocation.add(access, self._order)
            self._host.add(allocation, access)

    def overwrites(
        self,
        operation: StreamOperation,
        allocation: DeviceAllocation,
        written: ByteSet,
        text: str,
        site: CallSite | None,
        *,
        atomic: bool = False,
    ) -> bool:
        """Report the first access on another stream that a write conflicts with; return whether one does.

        ``text`` describes what writes. ``atomic``: by atomic operations only.
        """
        allocation.drop_known(self._order)
        for access in (*allocation.pending, *allocation.reads):
            if atomic and access.atomic:
                continue
            if not self._order.precedes(access.operation, operation) and access.accessed.overlaps(written):
                verb = "reads" if access.reads else "writes"
                message = f"{text} overwrites bytes that {access.text} {verb} on another stream: no event orders them"
                self._findings.host("api/stream-race", message, site, allocation, access)
                return True
        return False

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
                self._findings.host("api/stream-race", message, site, allocation, access)
                return

    def all_unordered(self, operation: StreamOperation) -> list[tuple[DeviceAllocation, list[PendingAccess]]]:
        """Return the allocations with writes that may not have ended when an operation begins, and these writes."""
        found = [(one, self.unordered(operation, one)) for one in self._memory.live if one.pending]
        return [(allocation, writes) for allocation, writes in found if writes]

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

"""Copies and fills of the host: what is wrong with one, and what memory is known to hold after it.

The bytes themselves are copied by the caller: the program's library, which shares the memory.
"""

from __future__ import annotations

from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.host.call_accesses import CallAccesses, MemorySpan
from gpuemu_lsp.engine.runtime.memory.allocations import Fill
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.protocol.calls import CopyCall, CopyDirection, HostWait, WaitScope
from gpuemu_lsp.engine.runtime.protocol.messages import Copied
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation, StreamOrder

_INVALID_VALUE = 1
"""A value of ``cudaError_t``."""


class HostCopies:
    """Carries out the copies and fills of one run, but for the bytes."""

    def __init__(self, memory: DeviceMemory, order: StreamOrder, accesses: CallAccesses, findings: RunFindings) -> None:
        self._memory, self._order, self._accesses, self._findings = memory, order, accesses, findings

    def copy(self, call: CopyCall, site: CallSite | None) -> Copied:
        """Return whether a copy or fill is valid, and whether memory holds the bytes of the fill already."""
        operation = self._order.begin(call.stream)
        target = source = None
        if call.target:
            target = self._accesses.bytes_at(call.target, call.width, call.target_pitch, call.rows, "writes", site)
        if call.source and (target is not None or not call.target):
            source = self._accesses.bytes_at(call.source, call.width, call.source_pitch, call.rows, "reads", site)
        if (call.target and target is None) or (call.source and source is None):
            return Copied(_INVALID_VALUE)
        if not self._matches(call.direction, target, source, site):
            return Copied(_INVALID_VALUE)
        if target is not None and source is not None and target.overlaps(source):
            text = "the target of the copy overlaps its source, for which CUDA defines no behaviour"
            self._findings.host("api/invalid-copy", text, site, target.allocation)
        of_host = any(part is not None and part.allocation.of_host for part in (target, source))
        ended = call.wait is HostWait.ALWAYS or (call.wait is HostWait.FOR_HOST_MEMORY and of_host)
        if source is not None:
            uninitialised = None
            if target is None:
                uninitialised = "the call copies bytes of which none was ever written to the host"
            pending = target is not None and not ended
            self._accesses.read(operation, source, site, uninitialised, pending=pending, to_host=target is None)
        holds = target is not None and self._write(call, operation, target, source, site)
        if ended:
            self._order.synchronize(WaitScope.STREAM, call.stream)
        return Copied(0, holds)

    def _write(
        self,
        call: CopyCall,
        operation: StreamOperation,
        target: MemorySpan,
        source: MemorySpan | None,
        site: CallSite | None,
    ) -> bool:
        """Note what is written; return whether memory holds that already, which is known of fills only."""
        holds = bool(call.value) and self._memory.holds(target.allocation, target.span, call.value)
        initialised = None
        if source is not None and source.allocation.missing:
            initialised = self._memory.initialised(source.allocation, source.span)
        self._accesses.write(operation, target, site, initialised, changes=not holds)
        if call.value and isinstance(target.span, slice):
            target.allocation.filled = Fill(target.span, call.value, self._memory.generation)
        return holds

    def _matches(
        self,
        direction: CopyDirection,
        target: MemorySpan | None,
        source: MemorySpan | None,
        site: CallSite | None,
    ) -> bool:
        """Return whether a copy's direction matches its memory, with a finding if not; None is memory of the host only.

        Both sides of memory that host and device share are right.
        """
        wanted = (direction.to_device, target, "target"), (direction.from_device, source, "source")
        for device, part, side in wanted if direction is not CopyDirection.DEFAULT and (target or source) else ():
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

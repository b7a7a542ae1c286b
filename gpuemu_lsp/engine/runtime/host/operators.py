"""Operators of a framework, which the program executes itself: what they read and write, in the order of streams."""

from __future__ import annotations

from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.host.allocator import Allocator
from gpuemu_lsp.engine.runtime.host.call_accesses import CallAccesses, MemorySpan
from gpuemu_lsp.engine.runtime.protocol.calls import MemoryKind, MemoryRows
from gpuemu_lsp.engine.runtime.protocol.messages import ExecuteOperator, OperatorExecuted
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation, StreamOrder

_INVALID_VALUE = 1
"""A value of ``cudaError_t``."""


class Operators:
    """The operators of one run; their bytes are the program's matter."""

    def __init__(self, order: StreamOrder, accesses: CallAccesses, allocator: Allocator) -> None:
        self._order, self._accesses, self._allocator = order, accesses, allocator

    def execute(self, call: ExecuteOperator, site: CallSite | None) -> OperatorExecuted:
        """Note an operator as the next operation of its stream, and report what is wrong with its accesses."""
        operation = self._order.begin(call.stream, call.name)
        read = [self._span(rows, operation, "reads", site) for rows in call.reads]
        written = [self._span(rows, operation, "writes", site) for rows in call.writes]
        text = f"{call.name} reads memory of which no byte was ever written"
        for part in read:
            if part is not None:
                self._accesses.read(operation, part, site, text, pending=True)
        for part in written:
            if part is not None:
                self._accesses.write(operation, part, site)
        results = tuple(self._result(size, operation, site) for size in call.results)
        return OperatorExecuted(_INVALID_VALUE if None in (*read, *written) else 0, results)

    def _span(
        self, rows: MemoryRows, operation: StreamOperation, verb: str, site: CallSite | None
    ) -> MemorySpan | None:
        return self._accesses.bytes_at(rows.address, rows.width, rows.pitch, rows.rows, verb, site, operation.name)

    def _result(self, size: int, operation: StreamOperation, site: CallSite | None) -> int:
        """Allocate memory that an operator writes; return its address, 0 if it is refused."""
        allocation = self._allocator.allocate(size, MemoryKind.DEVICE, site, written=True)
        if allocation is None:
            return 0
        self._accesses.note(allocation, operation, slice(0, size), site, reads=False)
        return allocation.address

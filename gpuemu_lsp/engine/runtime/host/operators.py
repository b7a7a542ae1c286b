"""Operators of a framework, which the program executes itself: what they read and write, in the order of streams."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.host.call_accesses import CallAccesses, MemorySpan
from gpuemu_lsp.engine.runtime.protocol.calls import MemoryRows
from gpuemu_lsp.engine.runtime.stream_order import StreamOrder

_INVALID_VALUE = 1
"""A value of ``cudaError_t``."""


class Operators:
    """The operators of one run; their bytes are the program's matter."""

    def __init__(self, order: StreamOrder, accesses: CallAccesses) -> None:
        self._order, self._accesses = order, accesses

    def execute(
        self,
        name: str,
        stream: int,
        reads: Sequence[MemoryRows],
        writes: Sequence[MemoryRows],
        site: CallSite | None,
    ) -> int:
        """Note an operator as the next operation of its stream, and report what is wrong with its accesses.

        Returns
        -------
        int
            A value of ``cudaError_t``, 0 if all its memory is there.
        """
        operation = self._order.begin(stream, name)
        read = [self._span(rows, name, "reads", site) for rows in reads]
        written = [self._span(rows, name, "writes", site) for rows in writes]
        text = f"{name} reads memory of which no byte was ever written"
        for part in read:
            if part is not None:
                self._accesses.read(operation, part, site, text, pending=True)
        for part in written:
            if part is not None:
                self._accesses.write(operation, part, site)
        return _INVALID_VALUE if None in read or None in written else 0

    def _span(self, rows: MemoryRows, name: str, verb: str, site: CallSite | None) -> MemorySpan | None:
        return self._accesses.bytes_at(rows.address, rows.width, rows.pitch, rows.rows, verb, site, name)

"""Allocations of device memory, with what operations do to them for which the host has not waited."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.launch.device_memory.memory import Range
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.memory.byte_sets import ByteSet
from gpuemu_lsp.engine.runtime.protocol.calls import MemoryKind
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation, StreamOrder


@dataclass(frozen=True, slots=True)
class PendingAccess:
    """Bytes that an operation writes or reads, for which the host has not waited; ``text`` describes the operation.

    ``signals`` says that a kernel may tell the host by other means that it has done so, and ``atomic`` that it writes
    them by atomic operations only: those of two kernels need no order.
    """

    operation: StreamOperation
    accessed: ByteSet = field(repr=False)
    text: str
    site: CallSite | None
    signals: bool = False
    reads: bool = False
    atomic: bool = False


@dataclass(frozen=True, slots=True)
class Fill:
    """What a fill has written: repeated ``value`` in ``span``. ``generation`` is that of memory afterwards."""

    span: slice
    value: bytes
    generation: int


@dataclass(slots=True)
class DeviceAllocation:
    """Memory of one allocation: its address in the program, size in bytes, and the call.

    ``name`` is unique in the run. ``missing`` counts the bytes that are not initialised. ``freed`` is the call that
    freed it, None while it is live. ``variable`` is the mangled name of a module variable. ``pending`` has the writes
    for which the host has not waited, if the program has streams, ``reads`` the reads of calls, and ``uses`` the last
    launch on each stream that has a pointer to it. ``direct`` are its pages that launches write without a copy of each,
    and ``filled`` the last fill. ``written_in_part`` says that a launch has written less of it than was expected.
    ``zeros`` is a constant variable that holds the zeros of a variable without an initialiser, as no call has written
    to it.
    """

    name: str
    address: int
    size: int
    site: CallSite | None
    missing: int = 0
    freed: CallSite | None = None
    live: bool = True
    kind: MemoryKind = MemoryKind.DEVICE
    variable: str | None = None
    direct: Range | None = None
    written_in_part: bool = False
    zeros: bool = False
    filled: Fill | None = None
    pending: list[PendingAccess] = field(default_factory=list, repr=False)
    reads: list[PendingAccess] = field(default_factory=list, repr=False)
    uses: dict[int, PendingAccess] = field(default_factory=dict, repr=False)

    def add(self, access: PendingAccess, order: StreamOrder) -> None:
        """Add an access in place of those that it hides.

        What is not ordered after an earlier access is not ordered after a later one of the same bytes either: the later
        one alone shows the race, and a loop of launches keeps one mask instead of one for each. Atomic operations
        do not race with those of others, and hide nothing else.
        """
        accesses = self.reads if access.reads else self.pending
        accesses[:] = [
            one
            for one in accesses
            if not order.precedes(one.operation, access.operation)
            or (access.atomic and not one.atomic)
            or not access.accessed.includes(one.accessed)
        ]
        accesses.append(access)

    def drop_known(self, order: StreamOrder) -> None:
        """Drop the accesses for which the host has waited."""
        for accesses in (self.pending, self.reads):
            accesses[:] = [one for one in accesses if not order.known(one.operation)]

    @property
    def of_host(self) -> bool:
        """Whether the host can access it without a call."""
        return self.kind in (MemoryKind.MANAGED, MemoryKind.PINNED)

    @property
    def from_call(self) -> bool:
        """Whether the program has allocated it by a call: no variable, texture or heap."""
        return self.variable is None and self.kind not in (MemoryKind.VARIABLE, MemoryKind.HEAP)

    @property
    def description(self) -> str:
        """Size and place, for messages."""
        if self.variable is not None:
            return f"{self.size} bytes, the variable `{demangled_name(self.variable)}`"
        place = f", allocated at {self.site}" if self.site else ""
        return f"{self.size} bytes{place}"


UnorderedWrites: TypeAlias = Sequence[tuple[DeviceAllocation, Sequence[PendingAccess]]]
"""Allocations with the writes that may not have ended when an operation begins."""

"""Uninitialised reads whose values a launch of the program discards.

As in checks (:mod:`gpuemu_lsp.engine.check.causes.discarded_reads`): such a read changes no byte of a result, whatever
the memory holds. The launch is made again with other contents of its shared memory, and of the bytes of allocations
that nothing has written, such as the rest of a cache's last page.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuemu_lsp.engine.execution import Event
from gpuemu_lsp.engine.ptx.model import Location
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.observers.launch import (
    LaunchObserver,
    LaunchResult,
    ObservedLaunch,
    Repetition,
    Repetitions,
)
from gpuemu_lsp.engine.runtime.protocol.calls import MemoryKind

_FILLS = (0x00, 0xFF, 0x7F, 0xFE)
"""Zero, NaN (-1), and a large positive and a large negative number, which ``min`` and ``max`` do not drop both."""

_MOST_MS = 5_000.0
"""Time of a launch up to which it is made again."""

_MOST_BYTES = 64 << 20
"""Size of the allocations, together, whose uninitialised bytes get other contents."""


class DiscardedReads(LaunchObserver):
    """Decides of each launch whether its uninitialised reads are discarded.

    Reads that were not are not asked about again in a later launch: they are errors already.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._used: set[Location | None] = set()

    def end(self, launch: ObservedLaunch, result: LaunchResult) -> LaunchResult | Repetitions:
        """Mark events that are such reads."""
        outcome, events = result.outcome, result.events
        if outcome is None or not events or outcome.status != "completed" or outcome.launch_ms > _MOST_MS:
            return result
        unordered = launch.built.unordered
        if any(event.rule != "memory/uninitialized-read" or event.buffer in unordered for event in events):
            return result
        # A wrong index may read what the launch has no pointer to.
        if not self._memory.lasting.can_begin_again or self._used.intersection(event.location for event in events):
            return result
        incomplete = self._incomplete(launch, events)
        names = {allocation.name for allocation in incomplete}
        if not all(event.buffer in names or self._is_shared(event) for event in events):
            return result
        if sum(allocation.size for allocation in incomplete) > _MOST_BYTES:
            return result
        return self._repetitions(result, incomplete)

    def _repetitions(self, result: LaunchResult, incomplete: Sequence[DeviceAllocation]) -> Repetitions:
        for fill in _FILLS:
            if not (yield Repetition(fill, tuple(incomplete))):
                self._used.update(event.location for event in result.events)
                return result
        return replace(result, discarded=True)

    def _incomplete(self, launch: ObservedLaunch, events: Sequence[Event]) -> list[DeviceAllocation]:
        """Return the allocations with uninitialised bytes that the launch can reach, if it reads some of one."""
        if all(self._memory.named(event.buffer or "") is None for event in events):
            return []
        reachable = launch.built.reachable(self._memory, launch.variables)
        return [one for one in reachable if one.missing and one.kind is MemoryKind.DEVICE]

    def _is_shared(self, event: Event) -> bool:
        # A copy from global to shared memory names both.
        return ".shared" in event.instruction and self._memory.named(event.buffer or "") is None

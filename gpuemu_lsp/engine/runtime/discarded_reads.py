"""Uninitialised reads whose values a launch of the program discards.

As in checks (:mod:`gpuemu_lsp.engine.check.causes.discarded_reads`): such a read changes no byte of a result, whatever
the memory holds. The launch is made again with other contents of its shared memory, and of the bytes of allocations
that nothing has written, such as the rest of a cache's last page; what it had written is dropped.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import SHADOW_OFFSET, Shadow
from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.emulator.launch.device_memory.memory import LastingMemory, Range
from gpuemu_lsp.engine.execution import Bytes, Outcome, Request
from gpuemu_lsp.engine.ptx.model import Location
from gpuemu_lsp.engine.runtime.allocations import DeviceAllocation, MemoryKind
from gpuemu_lsp.engine.runtime.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.launches import BuiltRequest, ModuleVariables

_FILLS = (0x00, 0xFF, 0x7F, 0xFE)
"""Zero, NaN (-1), and a large positive and a large negative number, which ``min`` and ``max`` do not drop both."""

_MOST_MS = 5_000.0
"""Time of a launch up to which it is made again."""

_MOST_BYTES = 64 << 20
"""Size of the allocations, together, whose uninitialised bytes get other contents."""


class DiscardedReads:
    """Decides of each launch whether its uninitialised reads are discarded.

    Reads that were not are not asked about again in a later launch: they are errors already.
    """

    def __init__(self, emulator: Emulator, memory: DeviceMemory) -> None:
        self._emulator, self._memory = emulator, memory
        self._used: set[Location | None] = set()

    def are_all(self, built: BuiltRequest, variables: ModuleVariables, outcome: Outcome) -> bool:
        """Return whether the events of a launch are such reads. Afterwards memory is as the launch has left it."""
        events = outcome.events
        if not events or outcome.status != "completed" or outcome.launch_ms > _MOST_MS:
            return False
        if any(one.rule != "memory/uninitialized-read" or one.buffer in built.unordered for one in events):
            return False
        # A wrong index may read what the launch has no pointer to.
        if not self._memory.lasting.can_begin_again:
            return False
        places = {one.location for one in events}
        if places & self._used:
            return False
        incomplete: list[DeviceAllocation] = []
        if any(self._memory.named(one.buffer or "") is not None for one in events):
            reachable = built.reachable(self._memory, variables)
            incomplete = [one for one in reachable if one.missing and one.kind is MemoryKind.DEVICE]
        names = {one.name for one in incomplete}
        known = all(one.buffer in names or self._is_shared(one.buffer, one.instruction) for one in events)
        if not known or sum(one.size for one in incomplete) > _MOST_BYTES:
            return False
        if self._same_with_other_contents(built.request, outcome, incomplete):
            return True
        self._used |= places
        return False

    def _is_shared(self, buffer: str | None, instruction: str) -> bool:
        # A copy from global to shared memory names both.
        return ".shared" in instruction and self._memory.named(buffer or "") is None

    def _same_with_other_contents(self, request: Request, outcome: Outcome, incomplete: list[DeviceAllocation]) -> bool:
        lasting = self._memory.lasting
        results = results_of(lasting)
        missing = [(one, ~self._memory.initialised(one)) for one in incomplete]
        before = [self._memory.view(one)[where].copy() for one, where in missing]
        # Other contents may be those of a lock that is never free.
        short = replace(request, max_seconds=min(request.max_seconds, 1.0 + outcome.launch_ms / 100))
        same = True
        for fill in _FILLS:
            for one, where in missing:
                self._memory.view(one)[where] = fill
            other = self._emulator.run(replace(short, fill=fill))
            if not alike(outcome, other) or not equal_results(results, results_of(lasting)):
                same = False
                break
        for (one, where), contents in zip(missing, before, strict=True):
            self._memory.view(one)[where] = contents
        if missing or not same:
            self._emulator.run(request)
        return same


def alike(one: Outcome, other: Outcome) -> bool:
    """Return whether a launch with other contents ended, printed the same, and did nothing else wrong."""
    found = {(event.rule, event.location) for event in one.events}
    return (
        other.status == one.status
        and other.printed == one.printed
        and all((event.rule, event.location) in found for event in other.events)
    )


def results_of(memory: LastingMemory) -> dict[Range, tuple[Bytes, npt.NDArray[np.bool_]]]:
    """Return what the launch has written: initialised bytes, zero elsewhere, and which bytes are initialised."""
    found = {}
    for (low, high), contents in memory.written().items():
        if low < SHADOW_OFFSET:
            known = (memory.launch_shadow[low:high] & np.uint8(Shadow.INITIALISED)) != 0
            contents[~known] = 0
            found[low, high] = contents, known
    return found


def equal_results(
    one: dict[Range, tuple[Bytes, npt.NDArray[np.bool_]]], other: dict[Range, tuple[Bytes, npt.NDArray[np.bool_]]]
) -> bool:
    """Return whether two launches have written the same."""
    return one.keys() == other.keys() and all(
        np.array_equal(data, other[pages][0]) and np.array_equal(known, other[pages][1])
        for pages, (data, known) in one.items()
    )

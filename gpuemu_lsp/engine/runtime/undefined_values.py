"""Local variables without a value on which a launch of the program depends.

Compilers leave a register undefined where its source variable has no value, also in correct kernels, whose results do
not depend on it. A launch of a kernel that computes with one is made again with other values of such registers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.execution import Access, Event, Outcome, Request
from gpuemu_lsp.engine.runtime.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.discarded_reads import alike, equal_results, results_of

_FILLS = (0x00, 0x7F)
_MOST_MS = 2_000.0
"""Time of a launch up to which it is made again."""

_MOST_LAUNCHES = 4
"""Launches of a kernel that are made again, as long as none depends on such a variable."""


class UndefinedValues:
    """Decides of launches without another finding whether they depend on a variable that has no value."""

    def __init__(self, emulator: Emulator, memory: DeviceMemory) -> None:
        self._emulator, self._memory = emulator, memory
        self._tried: Counter[tuple[str, str]] = Counter()

    def event(self, request: Request, outcome: Outcome) -> Event | None:
        """Return the report of a launch, None if there is nothing to report. Afterwards memory is as it has left it."""
        if outcome.status != "completed" or outcome.events or outcome.launch_ms > _MOST_MS:
            return None
        if not self._memory.lasting.can_begin_again:
            return None
        kernel = request.artifact.ptx, request.entry
        if self._tried[kernel] >= _MOST_LAUNCHES:
            return None
        self._tried[kernel] += 1
        uses = self._emulator.undefined_uses(request)
        if not uses:
            self._tried[kernel] = _MOST_LAUNCHES
            return None
        if not self._depends(request, outcome):
            return None
        self._tried[kernel] = _MOST_LAUNCHES
        message = "uninitialized read of a local variable, which has no value here; results of this launch depend on it"
        return Event("memory/uninitialized-read", message, uses[0].location, uses[0].name, access=Access.READ)

    def _depends(self, request: Request, outcome: Outcome) -> bool:
        lasting = self._memory.lasting
        results = results_of(lasting)
        short = replace(request, max_seconds=min(request.max_seconds, 1.0 + outcome.launch_ms / 100))
        for fill in _FILLS:
            other = self._emulator.run(replace(short, fill=fill))
            if not alike(outcome, other) or not equal_results(results, results_of(lasting)):
                # The same values again: a launch that differs from itself, as one that reads a clock, shows nothing.
                again = self._emulator.run(request)
                return alike(outcome, again) and equal_results(results, results_of(lasting))
        return False

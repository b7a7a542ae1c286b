"""Local variables without a value on which a launch of the program depends.

Compilers leave a register undefined where its source variable has no value, also in correct kernels, whose results do
not depend on it. A launch of a kernel that computes with one is made again with other values of such registers.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.execution import Access, Event
from gpuemu_lsp.engine.ptx.model import Instruction
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.observers.launch import (
    LaunchObserver,
    LaunchResult,
    ObservedLaunch,
    Repetition,
    Repetitions,
)

_FILLS = (0x00, 0x7F)
_MOST_MS = 2_000.0
"""Time of a launch up to which it is made again."""

_MOST_LAUNCHES = 4
"""Launches of a kernel that are made again, as long as none depends on such a variable."""


class UndefinedValues(LaunchObserver):
    """Decides of launches without another finding whether they depend on a variable that has no value."""

    def __init__(self, emulator: Emulator, memory: DeviceMemory) -> None:
        self._emulator, self._memory = emulator, memory
        self._tried: Counter[tuple[str, str]] = Counter()

    def end(self, launch: ObservedLaunch, result: LaunchResult) -> LaunchResult | Repetitions:
        """Add the event of a launch that depends on such a variable."""
        outcome = result.outcome
        if outcome is None or outcome.status != "completed" or outcome.events or outcome.launch_ms > _MOST_MS:
            return result
        if not self._memory.lasting.can_begin_again:
            return result
        request = launch.built.request
        kernel = request.artifact.ptx, request.entry
        if self._tried[kernel] >= _MOST_LAUNCHES:
            return result
        self._tried[kernel] += 1
        uses = self._emulator.undefined_uses(request)
        if not uses:
            self._tried[kernel] = _MOST_LAUNCHES
            return result
        return self._repetitions(result, kernel, uses[0])

    def _repetitions(self, result: LaunchResult, kernel: tuple[str, str], use: Instruction) -> Repetitions:
        for fill in _FILLS:
            if not (yield Repetition(fill)):
                # A launch that differs from itself, as one that reads a clock, shows nothing.
                if not (yield Repetition()):
                    break
                self._tried[kernel] = _MOST_LAUNCHES
                message = "uninitialized read of a local variable, which has no value here; results of this launch"
                message += " depend on it"
                event = Event("memory/uninitialized-read", message, use.location, use.name, access=Access.READ)
                return replace(result, events=(event,))
        return result

"""Launches that are made again with other contents of what has no value: their results show whether it matters.

It is possible until memory has what the launch has written: what each repetition writes is compared, and dropped.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import SHADOW_OFFSET, Shadow
from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.emulator.launch.device_memory.memory import LastingMemory, Range
from gpuemu_lsp.engine.execution import Bytes, Outcome
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation
from gpuemu_lsp.engine.runtime.observers.launch import LaunchResult, ObservedLaunch, Repetition, Repetitions

Written: TypeAlias = dict[Range, tuple[Bytes, npt.NDArray[np.bool_]]]


def repeat(launch: ObservedLaunch, result: LaunchResult, repetitions: Repetitions, emulator: Emulator) -> LaunchResult:
    """Make repetitions of a launch that has completed; return its state then."""
    assert result.outcome is not None, "a launch that was not made is not repeated"
    runs = _Runs(launch, result.outcome, emulator)
    try:
        repetition = next(repetitions)
        while True:
            repetition = repetitions.send(runs.is_same(repetition))
    except StopIteration as end:
        concluded: LaunchResult = end.value
    runs.restore()
    return concluded


class _Runs:
    """The repetitions of one launch."""

    def __init__(self, launch: ObservedLaunch, outcome: Outcome, emulator: Emulator) -> None:
        self._emulator, self._memory, self._outcome = emulator, launch.memory, outcome
        self._request = launch.built.request
        # Other contents may be those of a lock that is never free.
        seconds = min(self._request.max_seconds, 1.0 + outcome.launch_ms / 100)
        self._short = replace(self._request, max_seconds=seconds)
        self._results: Written | None = None
        self._replaced: list[tuple[DeviceAllocation, npt.NDArray[np.bool_], Bytes]] = []
        self._differs = False

    def is_same(self, repetition: Repetition) -> bool:
        """Make a repetition; return whether it did what the launch did."""
        lasting = self._memory.lasting
        if self._results is None:
            self._results = _results_of(lasting)
            for allocation in repetition.incomplete:
                missing = ~self._memory.initialised(allocation)
                self._replaced.append((allocation, missing, self._memory.view(allocation)[missing].copy()))
        if repetition.fill is None:
            outcome = self._emulator.run(self._request)
            self._differs = False
        else:
            for allocation, missing, _ in self._replaced:
                self._memory.view(allocation)[missing] = repetition.fill
            outcome = self._emulator.run(replace(self._short, fill=repetition.fill))
        same = _alike(self._outcome, outcome) and _equal_results(self._results, _results_of(lasting))
        self._differs |= repetition.fill is not None and not same
        return same

    def restore(self) -> None:
        """Let memory be as the launch has left it."""
        for allocation, missing, contents in self._replaced:
            self._memory.view(allocation)[missing] = contents
        if self._replaced or self._differs:
            self._emulator.run(self._request)


def _alike(first: Outcome, second: Outcome) -> bool:
    """Return whether a launch with other contents ended, printed the same, and did nothing else wrong."""
    events = {(event.rule, event.location) for event in first.events}
    return (
        second.status == first.status
        and second.printed == first.printed
        and all((event.rule, event.location) in events for event in second.events)
    )


def _results_of(memory: LastingMemory) -> Written:
    """Return what the launch has written: initialised bytes, zero elsewhere, and which bytes are initialised."""
    results: Written = {}
    for (low, high), contents in memory.written().items():
        if low < SHADOW_OFFSET:
            initialised = (memory.launch_shadow[low:high] & np.uint8(Shadow.INITIALISED)) != 0
            contents[~initialised] = 0
            results[low, high] = contents, initialised
    return results


def _equal_results(first: Written, second: Written) -> bool:
    """Return whether two launches have written the same."""
    return first.keys() == second.keys() and all(
        np.array_equal(data, second[pages][0]) and np.array_equal(initialised, second[pages][1])
        for pages, (data, initialised) in first.items()
    )

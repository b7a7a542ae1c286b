"""A launch on its way through the observers: they begin in order, it is made, and they end in the reverse order."""

from __future__ import annotations

from collections.abc import Sequence

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.runtime.observers.launch import LaunchObserver, LaunchResult, ObservedLaunch
from gpuemu_lsp.engine.runtime.observers.repetitions import repeat


class LaunchPipeline:
    """Makes launches, each of which all observers see."""

    def __init__(self, emulator: Emulator, observers: Sequence[LaunchObserver]) -> None:
        self._emulator = emulator
        self._observers = tuple(observers)

    def make(self, launch: ObservedLaunch) -> LaunchResult:
        """Make a launch, unless an observer has its result already."""
        result = None
        for observer in self._observers:
            result = observer.begin(launch)
            if result is not None:
                break
        if result is None:
            outcome = self._emulator.run(launch.built.request)
            result = LaunchResult(outcome, outcome.events)
        for observer in reversed(self._observers):
            ended = observer.end(launch, result)
            result = ended if isinstance(ended, LaunchResult) else repeat(launch, result, ended, self._emulator)
        return result

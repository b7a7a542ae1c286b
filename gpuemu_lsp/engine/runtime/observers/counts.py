"""How many launches a run has made, and what became of them."""

from __future__ import annotations

from gpuemu_lsp.engine.runtime.observers.launch import LaunchObserver, LaunchResult, ObservedLaunch


class LaunchCounts(LaunchObserver):
    """``launches`` that the program made, those that were ``completed``, and of these those that were ``repeated``.

    A launch is completed when it was checked to its end, and repeated when it was proved to do nothing new.
    """

    def __init__(self) -> None:
        self.launches = self.completed = self.repeated = 0

    def begin(self, launch: ObservedLaunch) -> None:
        """Count a launch."""
        self.launches += 1

    def end(self, launch: ObservedLaunch, result: LaunchResult) -> LaunchResult:
        """Count what became of it."""
        self.completed += result.checked
        self.repeated += result.outcome is None
        return result

    def add_repeats(self, count: int) -> None:
        """Count repeats that the program's library has not made."""
        self.launches += count
        self.completed += count
        self.repeated += count

    def add_rejected(self) -> None:
        """Count a launch that a GPU rejects: there was nothing to check."""
        self.launches += 1
        self.completed += 1

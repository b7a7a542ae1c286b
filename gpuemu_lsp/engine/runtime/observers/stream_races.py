"""The accesses of launches, among those of other work on streams: what they race with, and what may race with them."""

from __future__ import annotations

from dataclasses import replace

from gpuemu_lsp.engine.runtime.findings import launch_text
from gpuemu_lsp.engine.runtime.host.call_accesses import CallAccesses
from gpuemu_lsp.engine.runtime.host.shared_memory import SharedMemory, may_signal
from gpuemu_lsp.engine.runtime.memory.allocations import PendingAccess
from gpuemu_lsp.engine.runtime.observers.launch import LaunchAccesses, LaunchObserver, LaunchResult, ObservedLaunch
from gpuemu_lsp.engine.runtime.stream_order import StreamOrder


class StreamRaces(LaunchObserver):
    """Finds the races of launches, and notes their accesses for what comes later."""

    def __init__(self, order: StreamOrder, accesses: CallAccesses, shared: SharedMemory) -> None:
        self._order, self._accesses, self._shared = order, accesses, shared

    def end(self, launch: ObservedLaunch, result: LaunchResult) -> LaunchResult:
        """Add the races of a launch. A repeat has the accesses of the launch that it repeats."""
        if result.accesses is None:
            return result
        signals = may_signal(launch.launch.kernel.module)
        # Most launches need no text: those of a program without streams, to memory that the host cannot access.
        if result.accesses.stored or not launch.single:
            result = self._with_races(launch, result, result.accesses, signals=signals)
        if signals:
            self._shared.signal(launch.operation)
        return result

    def _with_races(
        self, launch: ObservedLaunch, result: LaunchResult, accesses: LaunchAccesses, *, signals: bool
    ) -> LaunchResult:
        operation, single, site = launch.operation, launch.single, launch.launch.site
        name = launch_text(launch.launch)
        text = f"{name} at {site}"
        for allocation in accesses.used if not single else ():
            self._accesses.use(allocation, operation, text, site)
        races = []
        for allocation, written, atomic in accesses.stored:
            race = self._accesses.overwrites(operation, allocation, written, name, atomic=atomic)
            if race is not None:
                races.append(race)
            if not single or allocation.of_host:
                write = PendingAccess(operation, written, text, site, signals, atomic=atomic)
                allocation.add(write, self._order)
                self._shared.add(allocation, write)
        return replace(result, races=(*result.races, *races))

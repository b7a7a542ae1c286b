"""Launches that are proved to do nothing new: they change nothing, and memory is as it was when they did not."""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import replace

from gpuemu_lsp.engine.ptx.model import Module
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.observers.launch import LaunchAccesses, LaunchObserver, LaunchResult, ObservedLaunch

_MOST_KEPT = 256 << 20
"""Bytes of masks that are kept for repeated launches, one for each byte that they store."""


class Repeats(LaunchObserver):
    """Ends a launch that would repeat one without an effect before it is made.

    In a program with streams, what comes later may conflict with such a launch, and not with the earlier one: the
    accesses of that are kept.
    """

    def __init__(self, memory: DeviceMemory) -> None:
        self._memory = memory
        self._without_effect: dict[Hashable, int] = {}
        self._accesses: dict[Hashable, LaunchAccesses] = {}
        self._accesses_generation = -1
        self._accesses_bytes = 0

    def begin(self, launch: ObservedLaunch) -> LaunchResult | None:
        """Return the result of a launch that repeats an earlier one."""
        if self._without_effect.get(launch.key) != launch.generation:
            return None
        if launch.single:
            return LaunchResult(None, proved=True)
        accesses = self._accesses.get(launch.key)
        if accesses is None or not accesses.covers(launch.unordered):
            return None
        return LaunchResult(None, accesses=accesses)

    def end(self, launch: ObservedLaunch, result: LaunchResult) -> LaunchResult:
        """Note a launch that has done nothing: it does the same again, unless it sees what is not device memory."""
        outcome, generation = result.outcome, self._memory.generation
        if outcome is None or outcome.status != "completed" or outcome.events or outcome.printed:
            return result
        if launch.generation != generation or _reads_clock(launch.launch.kernel.module) or self._sees_host(launch):
            return replace(result, proved=launch.single and self._without_effect.get(launch.key) == generation)
        self._without_effect[launch.key] = generation
        if not launch.single and result.accesses is not None:
            self._keep(launch.key, result.accesses, generation)
        return replace(result, proved=launch.single)

    def _sees_host(self, launch: ObservedLaunch) -> bool:
        """Return whether the launch can reach memory that the host can write without a call, which is not seen."""
        if not self._memory.shared_with_host:
            return False
        return any(one.of_host for one in launch.built.reachable(self._memory, launch.variables))

    def _keep(self, key: Hashable, accesses: LaunchAccesses, generation: int) -> None:
        """Keep the accesses of a launch with memory of this generation, unless all together are too large."""
        if self._accesses_generation != generation:
            self._accesses, self._accesses_generation, self._accesses_bytes = {}, generation, 0
        if self._accesses_bytes + accesses.size <= _MOST_KEPT:
            self._accesses[key] = accesses
            self._accesses_bytes += accesses.size


def _reads_clock(module: Module) -> bool:
    return "%clock" in module.text or "%globaltimer" in module.text

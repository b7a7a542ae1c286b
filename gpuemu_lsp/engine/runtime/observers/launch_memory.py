"""Device memory before and after a launch: what it is expected to write, and what it has written."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.emulator.launch.race_shadow import shadow_planes
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.observers.launch import LaunchAccesses, LaunchObserver, LaunchResult, ObservedLaunch


class LaunchMemory(LaunchObserver):
    """Prepares memory for launches, and keeps what they write. ``is_scarce`` says whether the machine's is short."""

    def __init__(self, emulator: Emulator, memory: DeviceMemory, is_scarce: Callable[[], bool]) -> None:
        self._emulator, self._memory, self._is_scarce = emulator, memory, is_scarce

    def begin(self, launch: ObservedLaunch) -> None:
        """Hide what other streams may still write, and prepare the large arrays that the launch may rewrite."""
        self._memory.hide(launch.unordered)
        built = launch.built
        if launch.single and not built.outside:
            pointers = (*built.pointers(), *launch.variables.by_name.items())
            self._memory.expect_launch(pointers, math.prod(launch.launch.grid) * math.prod(launch.launch.block))
        if self._is_scarce():
            # Records of accesses from before this launch, which all of its own follow.
            shadow_planes().drop()

    def end(self, launch: ObservedLaunch, result: LaunchResult) -> LaunchResult:
        """Keep what the launch has written, and add its accesses."""
        if result.outcome is None:
            return result
        stored = self._memory.settle(masks=not launch.single)
        updated = frozenset[int]()
        if stored and not launch.single and result.checked:
            stores = self._emulator.stores(launch.built.request)
            updated = launch.built.updated_by_atomics(stores, launch.variables)
        writes = [(allocation, written, allocation.address in updated) for allocation, written in stored]
        return replace(result, accesses=LaunchAccesses(writes, launch.built.allocations, launch.unordered))

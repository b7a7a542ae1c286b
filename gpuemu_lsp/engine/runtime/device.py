"""The emulated device: memory, streams and modules, what the host does with them, and launches.

A front end makes one device for a run, and calls its parts: a program through messages (:mod:`.answers`), or anything
else in this process. Calls are carried out in their order, one at a time.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.executor import Emulator
from gpuemu_lsp.engine.emulator.launch.limits.stop_request import StopReason, StopRequest
from gpuemu_lsp.engine.execution import ALL_CHECKS, Checks
from gpuemu_lsp.engine.ptx.index_overflow import overflow_in_launch, takes_sign
from gpuemu_lsp.engine.runtime.call_sites import CallSite
from gpuemu_lsp.engine.runtime.findings import RunFindings
from gpuemu_lsp.engine.runtime.host.allocator import Allocator
from gpuemu_lsp.engine.runtime.host.call_accesses import CallAccesses
from gpuemu_lsp.engine.runtime.host.copies import HostCopies
from gpuemu_lsp.engine.runtime.host.operators import Operators
from gpuemu_lsp.engine.runtime.host.products import Products
from gpuemu_lsp.engine.runtime.host.shared_memory import SharedMemory
from gpuemu_lsp.engine.runtime.host.tensor_maps import TensorMapEncoder
from gpuemu_lsp.engine.runtime.launches.kernels import ProgramLaunch
from gpuemu_lsp.engine.runtime.launches.modules import LoadedModules
from gpuemu_lsp.engine.runtime.launches.requests import TRANSLATION_SECONDS, LaunchSettings
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.observers.counts import LaunchCounts
from gpuemu_lsp.engine.runtime.observers.discarded_reads import DiscardedReads
from gpuemu_lsp.engine.runtime.observers.launch import LaunchObserver, LaunchResult, ObservedLaunch
from gpuemu_lsp.engine.runtime.observers.launch_memory import LaunchMemory
from gpuemu_lsp.engine.runtime.observers.pipeline import LaunchPipeline
from gpuemu_lsp.engine.runtime.observers.recorder import LaunchRecorder
from gpuemu_lsp.engine.runtime.observers.repeats import Repeats
from gpuemu_lsp.engine.runtime.observers.reports import LaunchReports
from gpuemu_lsp.engine.runtime.observers.stream_races import StreamRaces
from gpuemu_lsp.engine.runtime.observers.undefined_values import UndefinedValues
from gpuemu_lsp.engine.runtime.protocol.calls import LaunchCall
from gpuemu_lsp.engine.runtime.stream_order import StreamOrder

DEVICE_BYTES = 4 << 30
"""Memory of the emulated device: ``cudaMalloc`` beyond it fails."""

_GPU_BYTES = 80 << 30
"""Memory of a GPU."""
_ELEMENT_BYTES = (1, 2, 4, 8)
_NO_FLAG = 1 << 16
"""A value from which on an argument is not equal to the low bits of a number by chance."""


@dataclass(frozen=True, slots=True)
class DeviceLimits:
    """Memory in bytes, wall time of a launch in seconds, and the time of :func:`time.monotonic` at which all end."""

    memory_bytes: int = DEVICE_BYTES
    launch_seconds: float = math.inf
    deadline: float = math.inf


class EmulatedDevice:
    """The device of one run, and what was found about its use.

    ``program`` is the place of findings without a line. ``recorder`` records the launches, which have the ``checks``.
    ``stop`` ends a launch early, and ``memory_is_scarce`` says whether the machine's memory is short.

    Raises
    ------
    OSError
        If the addresses of device memory are in use.
    """

    def __init__(
        self,
        program: str,
        limits: DeviceLimits,
        *,
        checks: Checks = ALL_CHECKS,
        recorder: LaunchRecorder | None = None,
        stop: StopRequest | None = None,
        memory_is_scarce: Callable[[], bool] = lambda: False,
    ) -> None:
        self._limits, self._checks = limits, checks
        self.stop = stop or StopRequest()
        self.order = StreamOrder()
        self.memory = DeviceMemory(self.order, tracking=checks.contained)
        self.memory.words.set_total(limits.memory_bytes)
        self.modules = LoadedModules(self.memory)
        self.findings = RunFindings(program, self.memory)
        self.shared = SharedMemory(self.memory, self.order, self.findings)
        self.accesses = CallAccesses(self.memory, self.order, self.findings, self.shared)
        self.allocator = Allocator(self.memory, self.order, self.accesses, self.findings, limits.memory_bytes)
        self.copies = HostCopies(self.memory, self.order, self.accesses, self.findings)
        self.operators = Operators(self.order, self.accesses, self.allocator)
        self.products = Products(self.memory, self.order, self.accesses)
        self.tensor_maps = TensorMapEncoder(self.memory, self.findings)
        self.counts = LaunchCounts()
        emulator = Emulator(lasting=self.memory.lasting, stop=self.stop)
        self._reports = LaunchReports(self.findings, self.accesses, self.stop)
        # They begin from top to bottom, then the launch is made, and they end from bottom to top.
        observers: tuple[LaunchObserver | None, ...] = (
            # All launches count, also one that is not made or has no end.
            self.counts,
            # Before all that takes time; it ends when all that a launch changes is known.
            Repeats(self.memory),
            # From here on a launch is one that may be stopped; at its end everything is known that there is to report.
            self._reports,
            # Races are reported before what the launch itself does, of which they may be the cause.
            StreamRaces(self.order, self.accesses, self.shared),
            # Where a launch is recorded: what it reads before it is made, and once memory has what it has written.
            recorder,
            # Memory from before the launch is kept until here: those below may have it made again.
            LaunchMemory(emulator, self.memory, memory_is_scarce),
            # Of launches without another event, which the next one must have seen first.
            UndefinedValues(emulator, self.memory),
            DiscardedReads(self.memory),
        )
        self._launches = LaunchPipeline(emulator, [one for one in observers if one is not None])

    @property
    def notes(self) -> tuple[str, ...]:
        """What the program met that is not an error of its own, and what the findings lack."""
        return (*self.allocator.notes, *self.findings.notes)

    def launch(self, call: LaunchCall, site: CallSite | None) -> LaunchResult:
        """Make a launch, as the next operation of its stream."""
        kernel, variables = self.modules.kernel(call.kernel)
        cluster = call.cluster if any(call.cluster) else None
        operation = self.order.begin(call.stream)
        single = self.order.single
        remaining = max(self._limits.deadline - time.monotonic(), 0.0)
        return self._launches.make(
            ObservedLaunch(
                ProgramLaunch(kernel, call.grid, call.block, call.shared_bytes, call.parameters, site, cluster),
                variables,
                operation,
                single,
                () if single else self.accesses.all_unordered(operation),
                self.memory,
                self.memory.generation,
                LaunchSettings(
                    min(self._limits.launch_seconds, remaining), min(TRANSLATION_SECONDS, remaining), self._checks
                ),
            )
        )

    @property
    def followed(self) -> bool:
        """Whether launches are followed, and not made."""
        return not self.memory.has_contents

    def set_followed(self, followed: bool) -> None:
        """Follow launches from now on, or make them; where they are followed there is as much memory as on a GPU."""
        self.memory.has_contents = not followed
        self.allocator.limit = _GPU_BYTES if followed else self._limits.memory_bytes

    def follow(self, call: LaunchCall, site: CallSite | None) -> None:
        """Report a 32-bit index of a launch that overflows, in the threads that are followed."""
        kernel, _ = self.modules.kernel(call.kernel)
        launch = ProgramLaunch(kernel, call.grid, call.block, call.shared_bytes, call.parameters, site)
        overflow = overflow_in_launch(kernel.function, launch.integers, call.grid, call.block)
        if overflow is not None:
            self.findings.overflow(overflow[0], launch)
        for number, value, count in self._cut_counts(launch):
            self.findings.cut_count(number, value, count, launch)

    def _cut_counts(self, launch: ProgramLaunch) -> Iterator[tuple[int, int, int]]:
        """Yield arguments of 32 bits, with their number from 1, that are the low bits of the elements of an array."""
        values = [launch.integers.get(parameter.name, 0) for parameter in launch.kernel.parameters]
        arrays = [array for value in values if (array := self.memory.find(value)) is not None and array.live]
        counts = {array.size // size for array in arrays for size in _ELEMENT_BYTES if array.size // size >= 1 << 31}
        for number, (parameter, value) in enumerate(zip(launch.kernel.parameters, values, strict=True), 1):
            cut = next((count for count in counts if (count - value) % (1 << 32) == 0), None)
            if cut is None or parameter.size != 4 or abs(value) < _NO_FLAG:
                continue
            # An unsigned number of 32 bits holds it.
            if cut >= 1 << 32 or takes_sign(launch.kernel.function, parameter.name):
                yield number, value, cut

    def create_stream(self, stream: int, flags: int) -> None:
        """Add a stream, which was created with ``flags``; from then on all launches say what they store."""
        self.order.create(stream, flags)
        self.memory.end_direct()

    def note_stop(self, reason: StopReason) -> None:
        """Add that the launch whose end an exception has prevented was stopped, if there is one."""
        self._reports.note_stop(reason)

    def close(self) -> None:
        """Give the memory back; nothing may use the device afterwards."""
        self.memory.close()

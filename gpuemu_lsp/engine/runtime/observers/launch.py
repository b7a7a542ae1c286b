"""What passes between the device and the observers of its launches: a launch, its result, and repetitions of it."""

from __future__ import annotations

from collections.abc import Generator, Hashable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Protocol, TypeAlias

from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.runtime.host.call_accesses import StreamRace
from gpuemu_lsp.engine.runtime.launches.kernels import ProgramLaunch
from gpuemu_lsp.engine.runtime.launches.modules import ModuleVariables
from gpuemu_lsp.engine.runtime.launches.requests import BuiltRequest, LaunchSettings, request_of
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation, UnorderedWrites
from gpuemu_lsp.engine.runtime.memory.byte_sets import ByteSet
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.stream_order import StreamOperation


@dataclass(frozen=True)
class ObservedLaunch:
    """A launch of the device.

    ``single`` says that the program has made no stream of its own, ``unordered`` which writes may not have ended when
    the launch begins, and ``generation`` which contents memory has before it.
    """

    launch: ProgramLaunch
    variables: ModuleVariables
    operation: StreamOperation
    single: bool
    unordered: UnorderedWrites
    memory: DeviceMemory
    generation: int
    settings: LaunchSettings

    @cached_property
    def key(self) -> Hashable:
        """What a repeat of the launch has in common with it."""
        launch = self.launch
        return (id(launch.kernel), launch.grid, launch.block, launch.shared_bytes, launch.cluster, launch.parameters)

    @cached_property
    def built(self) -> BuiltRequest:
        """The request to the emulator, which a launch that is not made does not need."""
        return request_of(self.launch, self.memory, self.variables, self.settings, self.unordered)


@dataclass(frozen=True, slots=True)
class LaunchAccesses:
    """What a launch stores, by allocation, and whether by atomic operations only; and what else is known of it.

    It has pointers to the allocations ``used``. If it has no findings, it reads none of the bytes that the writes in
    ``unordered`` may write, as those were not initialised for it.
    """

    stored: list[tuple[DeviceAllocation, ByteSet, bool]] = field(repr=False)
    used: tuple[DeviceAllocation, ...] = field(repr=False)
    unordered: UnorderedWrites = field(repr=False)

    @property
    def size(self) -> int:
        """Bytes of the masks."""
        pending = sum(len(write.accessed.mask) for _, writes in self.unordered for write in writes)
        return pending + sum(len(written.mask) for _, written, _ in self.stored)

    def covers(self, unordered: UnorderedWrites) -> bool:
        """Return whether the launch is known to read nothing of these writes either."""
        covered = {allocation.address: writes for allocation, writes in self.unordered}
        return all(
            any(other.accessed.includes(write.accessed) for other in covered.get(allocation.address, ()))
            for allocation, writes in unordered
            for write in writes
        )


@dataclass(frozen=True, slots=True)
class LaunchResult:
    """The state of a launch that has ended; each observer adds to it.

    ``outcome`` is the emulator's, None for a launch that was not made, because it was proved to do nothing new.
    ``events`` are those to report; with ``discarded`` no result depends on the values that they read. ``accesses`` are
    known once memory has what the launch has written, and ``races`` are those with operations on other streams.
    ``proved``: the same launch would do nothing now.
    """

    outcome: Outcome | None
    events: tuple[Event, ...] = ()
    discarded: bool = False
    accesses: LaunchAccesses | None = None
    races: tuple[StreamRace, ...] = ()
    proved: bool = False

    @property
    def completed(self) -> bool:
        """Whether all threads have exited, or would have."""
        return self.outcome is None or self.outcome.status == "completed"

    @property
    def checked(self) -> bool:
        """Whether the launch was checked to its end."""
        return self.outcome is None or self.outcome.status in ("completed", "trapped")


@dataclass(frozen=True, slots=True)
class Repetition:
    """The launch once more, with memory as it was before it, but for what has no value.

    ``fill`` is the byte that registers, shared memory and the bytes of the allocations ``incomplete`` hold that have no
    value; None leaves all of them as they were.
    """

    fill: int | None = None
    incomplete: tuple[DeviceAllocation, ...] = ()


Repetitions: TypeAlias = Generator[Repetition, bool, LaunchResult]
"""Repetitions of a launch, one after another, and its result then. What is sent is whether one did the same.

Afterwards memory is as the launch itself has left it.
"""


class LaunchObserver(Protocol):
    """Sees each launch of a device before and after it is made.

    What it wants done is in what it returns: it does not call the device.
    """

    def begin(self, launch: ObservedLaunch) -> LaunchResult | None:
        """Prepare for a launch; or return its result, if it need not be made.

        Then the later observers do not prepare for it.
        """
        return None

    def end(self, launch: ObservedLaunch, result: LaunchResult) -> LaunchResult | Repetitions:
        """Return the state of a launch, also of one that was not made; or repetitions that it takes to know."""
        return result

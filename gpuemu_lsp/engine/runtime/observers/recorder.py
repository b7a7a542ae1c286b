"""Recording of a run's launches: all are counted by kernel, site and shape; some are kept with what they read."""

from __future__ import annotations

import time
from collections.abc import Hashable
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path

import numpy as np

from gpuemu_lsp.engine.execution import Argument, Buffer, StructArgument
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.model import Instruction
from gpuemu_lsp.engine.recordings.model import (
    LaunchGroup,
    RecordedAllocation,
    RecordedKernel,
    RecordedLaunch,
    RecordedParameter,
    RecordedPointer,
    Recording,
    Site,
)
from gpuemu_lsp.engine.recordings.reader import contents_digest
from gpuemu_lsp.engine.recordings.writer import RecordingWriter
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.runtime.call_sites import CallSite, is_vendor_header, source_place
from gpuemu_lsp.engine.runtime.launches.kernels import LoadedKernel, ProgramLaunch
from gpuemu_lsp.engine.runtime.marked_sources import is_marked
from gpuemu_lsp.engine.runtime.memory.allocations import DeviceAllocation
from gpuemu_lsp.engine.runtime.memory.device_memory import DeviceMemory
from gpuemu_lsp.engine.runtime.observers.launch import LaunchObserver, LaunchResult, ObservedLaunch
from gpuemu_lsp.engine.runtime.protocol.calls import MemoryKind

MAX_LAUNCH_BYTES = 32 << 20
"""Contents of one launch that are kept."""
MAX_STORED_BYTES = 256 << 20
"""Compressed size of a recording's contents."""
MAX_KEPT = 6
"""Launches of one kernel that are kept: those that differ in shape, sizes or scalars."""


@dataclass(slots=True)
class _Group:
    kernel: int
    launch: ProgramLaunch
    count: int = 0
    checked: int = 0
    repeated: int = 0
    findings: int = 0
    seconds: float = 0.0


@dataclass(slots=True)
class _PendingLaunch:
    """A launch that has begun; ``kept`` has what is stored of it if it is one of those."""

    group: _Group
    started: float
    kept: _Kept | None = None


@dataclass(slots=True)
class _Kept:
    launch: ProgramLaunch
    allocations: list[DeviceAllocation]
    before: list[bytes | None]
    initialised: list[bytes | None]
    addresses: list[bool]
    pointers: tuple[RecordedPointer, ...]
    left_out: str | None = None


@dataclass
class LaunchRecorder(LaunchObserver):
    """The recording of one run."""

    writer: RecordingWriter
    program: str
    _kernels: list[RecordedKernel] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    _groups: dict[Hashable, _Group] = field(default_factory=dict)
    _by_key: dict[Hashable, _Group] = field(default_factory=dict)
    _shapes: dict[int, set[Hashable]] = field(default_factory=dict)
    _launches: list[RecordedLaunch] = field(default_factory=list)
    _full: bool = False
    _pending: _PendingLaunch | None = None

    def begin(self, launch: ObservedLaunch) -> None:
        """Note a launch that is about to be made, and keep what it reads."""
        program = launch.launch
        kernel = self._number(program)
        place = kernel, program.site, program.grid, program.block, program.shared_bytes, program.cluster
        group = self._groups.setdefault(place, _Group(kernel, program))
        self._by_key[launch.key] = group
        group.count += 1
        self._pending = _PendingLaunch(group, time.monotonic(), self._kept(kernel, launch))

    def end(self, launch: ObservedLaunch, result: LaunchResult) -> LaunchResult:
        """Note the result of a launch, which is in device memory by now; count one that repeats an earlier one."""
        outcome, pending = result.outcome, self._pending
        if outcome is None:
            group = self._by_key.get(launch.key)
            if group is not None:
                group.count += 1
                group.repeated += 1
        elif pending is not None:
            group = pending.group
            group.seconds += time.monotonic() - pending.started
            group.checked += result.checked
            group.findings += len(outcome.events)
            if pending.kept is not None:
                clean = outcome.status == "completed" and not outcome.events
                self._launches.append(self._recorded(group, pending.kept, launch.memory, clean))
        return result

    def finish(self) -> Recording:
        """Write the recording, unless no launch was made: then an earlier file stays. Return it.

        Raises
        ------
        RecordingError
            If the file cannot be written.
        """
        left_out = [one for one in self._launches if one.left_out is not None]
        notes = tuple(dict.fromkeys(f"{self._kernels[one.kernel].name}: {one.left_out}" for one in left_out))
        recording = Recording(
            path=str(self.writer.path),
            program=self.program,
            created=time.time(),
            kernels=tuple(self._kernels),
            groups=tuple(map(_group, self._groups.values())),
            launches=tuple(self._launches),
            notes=notes,
        )
        if recording.kernels:
            self.writer.finish(recording)
        return recording

    def _number(self, launch: ProgramLaunch) -> int:
        kernel = launch.kernel
        if id(kernel) not in self._numbers:
            self._numbers[id(kernel)] = len(self._kernels)
            source = _source(kernel, launch.site)
            # Nothing but the program compiles a kernel in Python.
            kept = source is not None and source.endswith(".py")
            self._kernels.append(
                RecordedKernel(
                    symbol=kernel.function.name,
                    name=demangled_name(kernel.function.name),
                    source=source,
                    digest="" if source is None else _text_digest(source),
                    parameters=tuple(RecordedParameter(one.name, one.offset, one.size) for one in kernel.parameters),
                    code=self.writer.contents(kernel.module.text.encode()) if kept else None,
                )
            )
        return self._numbers[id(kernel)]

    def _kept(self, kernel: int, observed: ObservedLaunch) -> _Kept | None:
        """Return what a launch reads, None if enough launches like it are kept or it uses memory that was freed."""
        launch, built, memory = observed.launch, observed.built, observed.memory
        shapes = self._shapes.setdefault(kernel, set())
        if len(shapes) >= MAX_KEPT or not all(one.live for one in built.allocations):
            return None
        allocations = list(built.reachable(memory, observed.variables))
        # Blocks of the heap are not recorded.
        if any(one.kind is MemoryKind.HEAP for one in allocations):
            return None
        numbers = {one.address: number for number, one in enumerate(allocations)}
        pointers = tuple(_pointers(launch, built.request.arguments, numbers))
        block = bytearray(launch.parameters)
        for pointer in pointers:
            block[pointer.offset : pointer.offset + 8] = bytes(8)
        sizes = tuple(one.size for one in allocations)
        shape = launch.grid, launch.block, launch.shared_bytes, launch.cluster, bytes(block), pointers, sizes
        if shape in shapes:
            return None
        shapes.add(shape)
        none: list[bytes | None] = [None] * len(allocations)
        addresses = [bool(memory.addresses_in(one)) for one in allocations]
        kept = _Kept(launch, allocations, list(none), none, addresses, pointers)
        if any(launch.cluster or ()) and launch.cluster != launch.kernel.cluster:
            kept.left_out = "launches in clusters that the kernel does not require itself are not in the recording"
        elif any(one.kind is MemoryKind.VARIABLE and one.variable is None for one in allocations):
            kept.left_out = "launches with texture or surface objects are not in the recording"
        elif sum(sizes) > MAX_LAUNCH_BYTES:
            limit = f"its limit is {MAX_LAUNCH_BYTES >> 20} MiB"
            kept.left_out = f"{sum(sizes):,} bytes of a launch are not in the recording: {limit}"
        elif self._full or self.writer.stored_bytes > MAX_STORED_BYTES:
            self._full = True
            kept.left_out = f"the recording has {MAX_STORED_BYTES >> 20} MiB, its limit: later contents are not in it"
        else:
            for number, one in enumerate(allocations):
                known = memory.initialised(one)
                if known.any():
                    kept.before[number] = bytes(memory.view(one))
                    kept.initialised[number] = None if known.all() else known.astype(np.uint8).tobytes()
        return kept

    def _recorded(self, group: _Group, kept: _Kept, memory: DeviceMemory, clean: bool) -> RecordedLaunch:
        # The group's is its first launch: scalars of later ones from the same line may differ.
        launch, store = kept.launch, self.writer.contents
        found = []
        for number, one in enumerate(kept.allocations):
            before, mask = kept.before[number], kept.initialised[number]
            after = bytes(memory.view(one)) if kept.left_out is None and clean else before
            found.append(
                RecordedAllocation(
                    address=one.address,
                    size=one.size,
                    site=_site(one.site),
                    variable=one.variable,
                    before=None if before is None else store(before),
                    initialised=None if mask is None else store(mask),
                    after=None if after is None or after == before else store(after),
                    addresses=kept.addresses[number],
                )
            )
        block = bytearray(launch.parameters)
        for pointer in kept.pointers:
            block[pointer.offset : pointer.offset + 8] = bytes(8)
        identity = [
            *(launch.kernel.function.name, launch.grid, launch.block, launch.shared_bytes, bytes(block)),
            *kept.pointers,
            *((one.size, one.before, one.initialised, one.variable) for one in found),
        ]
        return RecordedLaunch(
            digest=contents_digest(repr(identity).encode()),
            kernel=group.kernel,
            site=_site(launch.site),
            grid=launch.grid,
            block=launch.block,
            shared_bytes=launch.shared_bytes,
            parameters=launch.parameters,
            pointers=kept.pointers,
            allocations=tuple(found),
            clean=clean,
            left_out=kept.left_out,
        )


def _group(group: _Group) -> LaunchGroup:
    launch = group.launch
    return LaunchGroup(
        kernel=group.kernel,
        site=_site(launch.site),
        grid=launch.grid,
        block=launch.block,
        shared_bytes=launch.shared_bytes,
        count=group.count,
        checked=group.checked,
        repeated=group.repeated,
        findings=group.findings,
        seconds=round(group.seconds, 6),
    )


def _pointers(launch: ProgramLaunch, arguments: tuple[Argument, ...], numbers: dict[int, int]) -> list[RecordedPointer]:
    """Return the addresses of allocations in the parameter block."""
    found = []
    for parameter, argument in zip(launch.kernel.parameters, arguments, strict=True):
        places: list[tuple[int, Buffer]] = []
        if isinstance(argument, Buffer):
            places = [(0, argument)]
        elif isinstance(argument, StructArgument):
            places = [(offset, buffer) for offset, buffer in argument.pointers]
        for offset, buffer in places:
            assert buffer.host_address is not None
            found.append(
                RecordedPointer(parameter.offset + offset, numbers[buffer.host_address], buffer.pointer_offset)
            )
    return found


def _site(site: CallSite | None) -> Site | None:
    return None if site is None else Site(str(Path(site.path).resolve()), site.line)


def _source(kernel: LoadedKernel, site: CallSite | None) -> str | None:
    """Return the file in which the user has written a kernel: that of its first line not in one of CUDA's headers.

    ``site`` is the line that launches it.
    """
    files = kernel.module.files
    for instruction in kernel.function.body or ():
        if not isinstance(instruction, Instruction) or instruction.location is None:
            continue
        at = instruction.location
        while at.inlined_at is not None:
            at = at.inlined_at
        path = files.get(at.file)
        if path is not None and not is_vendor_header(path):
            written, _ = source_place(path, at.line, site.caller if site is not None else None)
            # The line of a parameter is from none of Python.
            if written != path or not is_marked(path):
                return str(Path(written).resolve())
    return None


@cache
def _text_digest(path: str) -> str:
    try:
        return contents_digest(file_bytes(path))
    except OSError:
        return ""

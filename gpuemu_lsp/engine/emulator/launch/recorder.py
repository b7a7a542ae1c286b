"""Recording of one block of a launch: the tables that recording versions fill, and memory as it was.

A recording is a database of one block: every result of every instruction of its warps, in the order in which they were
executed, and a picture of memory at the block's start. What happened is looked up in it, forwards and backwards;
nothing is executed again. It is made by a version of the code of its own, whose checkers, schedule and values are those
of every other version.

A block that does more than a budget holds is recorded in *windows*. A window begins at a position that is asked for,
with a picture of memory there, of the registers that are live and of the asynchronous copies that are pending: what
was before it is looked up in the picture, as at the block's start. Since launches are deterministic, any other window
is made by another launch.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, EventRecord, LaunchRecord, RecordedRun, RecordingRecord
from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.codegen.core.recording_layout import VersionLayout
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.emulator.launch.entry_state import EntryState, ExecutedRun, entry_state
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch
from gpuemu_lsp.engine.emulator.versions.tiering import LaunchVersions
from gpuemu_lsp.engine.execution import Bytes, Dim3
from gpuemu_lsp.engine.ptx.model import Location

_CALL = ctypes.CFUNCTYPE(None, ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_int32)

RUN: Final = np.dtype(
    {
        "names": ["block", "lanes", "warp", "scalar_pc", "offset"],
        "formats": ["<i4", "<u4", "<i4", "<i4", "<i8"],
        "offsets": [
            int(RecordedRun.BASIC_BLOCK),
            int(RecordedRun.LANES),
            int(RecordedRun.WARP),
            int(RecordedRun.SCALAR_PC),
            int(RecordedRun.OFFSET),
        ],
        "itemsize": RecordedRun.SIZE,
    }
)
"""A :class:`RecordedRun` as NumPy reads it."""


@dataclass(frozen=True, slots=True)
class RecordingLimits:
    """The most that a recording holds, in bytes; pages that are not written use no memory."""

    bytes: int = 40 << 20


DEFAULT_LIMITS: Final = RecordingLimits()
OVERLAP: Final = 8
"""The share of a window, one part of so many, that the window before it has, too."""


@dataclass(frozen=True, slots=True)
class MemoryPicture:
    """A region of memory at one moment; ``data`` and ``shadow`` have a byte per byte of it."""

    name: str
    kind: str
    address: int
    element_size: int
    data: Bytes
    shadow: Bytes

    @property
    def initialised(self) -> npt.NDArray[np.bool_]:
        """Whether each byte has a value."""
        return (self.shadow & Shadow.INITIALISED).astype(np.bool_)

    @property
    def readable(self) -> npt.NDArray[np.bool_]:
        """Whether each byte may be read, with or without a value."""
        return (self.shadow & Shadow.ADDRESSABLE).astype(np.bool_)

    @property
    def writable(self) -> npt.NDArray[np.bool_]:
        """Whether a store to each byte is allowed."""
        allowed: npt.NDArray[np.bool_] = (self.shadow & (Shadow.ADDRESSABLE | Shadow.READ_ONLY)) == Shadow.ADDRESSABLE
        return allowed


@dataclass(frozen=True, slots=True)
class NotedEvent:
    """An event of the recorded block: where it is, its thread, and its position: see :class:`RecordedWindow`."""

    location: Location | None
    thread: int
    position: int


@dataclass(frozen=True, slots=True)
class RecordedWindow:
    """The part of a block that is recorded.

    The *position* of a run is the number of bytes that all runs before it take. The window has the runs at ``begin`` to
    ``end``, the first ones from the position ``wanted`` on, of a block whose end is at ``whole``. ``skipped`` runs are
    before it, ``ticks`` instructions and ends of runs, and ``lost`` runs behind it.
    """

    wanted: int = 0
    begin: int = 0
    end: int = 0
    whole: int = 0
    skipped: int = 0
    ticks: int = 0
    lost: int = 0
    events: tuple[NotedEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class BlockRecording:
    """What one block of a launch did.

    ``runs`` has an entry of :data:`RUN` for each execution of a basic block by a warp, in the order of execution;
    ``payload`` their results, in the ``layouts`` of the specialised and the scalar-PC version. ``memory`` is what it
    was before the first run, or before the run that was asked for. ``shared`` and ``local`` are the addresses of the
    block's shared memory and of its first thread's local memory, ``variables`` those of the module's variables.
    ``entry`` is None where the ``window`` begins with the block.
    """

    program: Program
    graph: ControlFlowGraph
    block: int
    grid: Dim3
    threads: Dim3
    fill: int
    runs: npt.NDArray[np.void]
    payload: Bytes
    layouts: tuple[VersionLayout, VersionLayout]
    memory: tuple[MemoryPicture, ...]
    shared: int
    local: int
    variables: Mapping[str, int]
    window: RecordedWindow
    entry: EntryState | None

    @property
    def shared_size(self) -> int:
        """Bytes of the block's shared memory."""
        return next((len(one.data) for one in self.memory if one.address == self.shared), 0)

    @property
    def thread_count(self) -> int:
        """Threads of the block."""
        x, y, z = self.threads
        return x * y * z

    @property
    def block_index(self) -> Dim3:
        """The block's index in the grid."""
        x, y, _ = self.grid
        return self.block % x, self.block // x % y, self.block // (x * y)


class BlockRecorder:
    """Records block ``block``, a linear number, of the launch that it is attached to, from position ``begin`` on.

    ``picture_at`` is the number of the run before which memory is copied, counted from the window's begin.
    """

    def __init__(self, block: int, limits: RecordingLimits, picture_at: int = 0, begin: int = 0) -> None:
        self._block, self._limits, self._picture_at, self._begin = block, limits, picture_at, begin
        self._memory: tuple[MemoryPicture, ...] = ()
        self._entry: EntryState | None = None
        self._shared = self._local = self._first_position = 0

    @property
    def has_started(self) -> bool:
        """Whether the launch has reached the run before which memory is copied."""
        return bool(self._memory)

    def attach(self, prepared: PreparedLaunch, versions: LaunchVersions) -> None:
        """Record the launch ``prepared``; what was recorded before is dropped."""
        self._prepared, self._versions, self._memory, self._entry = prepared, versions, (), None
        self._call = _CALL(self._take_picture)
        largest = max((layout.size for version in versions.recording_layouts() for layout in version.blocks), default=0)
        # Reserved, not committed: the system maps a page when it is first written.
        self._payload = np.empty(self._limits.bytes + largest, dtype=np.uint8)
        self._runs = np.empty(self._limits.bytes // RecordedRun.SIZE + 1, dtype=RUN)
        self._spare = Record(max(largest, 8))
        self._positions = Record(8 * prepared.launch.get(LaunchRecord.EVENT_LIMIT))
        self._positions.bytes[:] = 0xFF
        self._record = Record(RecordingRecord.SIZE)
        for field, value in (
            (RecordingRecord.BLOCK, self._block),
            (RecordingRecord.BEGIN, self._begin),
            (RecordingRecord.RUNS, self._runs.ctypes.data),
            (RecordingRecord.PAYLOAD, self._payload.ctypes.data),
            (RecordingRecord.LIMIT, self._limits.bytes),
            (RecordingRecord.SPARE, self._spare.address),
            (RecordingRecord.PICTURE_AT, self._picture_at),
            (RecordingRecord.PICTURE_CALLBACK, ctypes.cast(self._call, ctypes.c_void_p).value or 0),
            (RecordingRecord.EVENT_POSITIONS, self._positions.address),
        ):
            self._record.set(field, value)
        prepared.launch.set(LaunchRecord.RECORDING, self._record.address)

    def recording(self) -> BlockRecording:
        """Return the recording of the launch, which has ended."""
        # It refers to this object: the memory of a recording is not to wait for the collection of cycles.
        del self._call
        prepared, request = self._prepared, self._prepared.request
        count, used = self._record.get(RecordingRecord.COUNT), self._record.get(RecordingRecord.USED)
        return BlockRecording(
            program=prepared.kernel.program,
            graph=prepared.kernel.graph,
            block=self._block,
            grid=request.grid,
            threads=request.block,
            fill=request.fill,
            # Views: a copy would double the memory, and what is behind them was never written.
            runs=self._runs[:count],
            payload=self._payload[:used],
            layouts=self._versions.recording_layouts(),
            memory=self._memory,
            shared=self._shared,
            local=self._local,
            variables={name: region.address for name, region in prepared.module_variables.items()},
            window=self._window(count * RecordedRun.SIZE + used),
            entry=self._entry,
        )

    def _window(self, size: int) -> RecordedWindow:
        """Return the window, whose runs take ``size`` bytes."""
        get, lost = self._record.get, self._record.get(RecordingRecord.LOST)
        whole = get(RecordingRecord.POSITION)
        begin = self._begin if self._picture_at else self._first_position
        events = tuple(self._noted_events(whole))
        skipped, ticks = get(RecordingRecord.SKIPPED), get(RecordingRecord.SKIPPED_TICKS)
        return RecordedWindow(self._begin, begin, begin + size, whole, skipped, ticks, lost, events)

    def _noted_events(self, whole: int) -> Iterator[NotedEvent]:
        """Yield the events of the block; those of a run that has not ended are at the end."""
        prepared, last = self._prepared, -1
        ended = self._record.get(RecordingRecord.EVENTS)
        for number, position in enumerate(self._positions.table64(prepared.launch.get(LaunchRecord.EVENT_COUNT))):
            last = whole if number >= ended else int(position) if position >= 0 else last
            record = prepared.events.at(number * EventRecord.SIZE)
            if record.get(EventRecord.BLOCK) == self._block:
                thread = record.get(EventRecord.WARP) * WARP_SIZE + record.get(EventRecord.LANE)
                instruction = prepared.kernel.sites[record.get(EventRecord.SITE)][0]
                yield NotedEvent(instruction.location if instruction is not None else None, thread, last)

    def _take_picture(self, context: int, number: int, lanes: int, scalar_pc: int) -> None:
        """Copy the memory that the recorded block can access, before a run of a warp; called by generated code."""
        prepared = self._prepared
        resident = next(one for one in prepared.residents if one.record.get(BlockRecord.LINEAR) == self._block)
        self._shared, self._local = resident.shared.address, resident.local.address
        self._first_position = self._record.get(RecordingRecord.POSITION)
        arena = prepared.arena
        self._memory = tuple(
            MemoryPicture(
                region.name,
                region.kind,
                region.address,
                region.element_size,
                arena.data(region.address, region.size).copy(),
                arena.shadow(region.address, region.size).copy(),
            )
            for region in arena.all_regions
        )
        if self._first_position and not self._picture_at:
            executing = (context - resident.warps.address) // prepared.kernel.context_bytes
            current = ExecutedRun(executing, number, lanes, bool(scalar_pc))
            self._entry = entry_state(prepared, self._versions, resident, current)

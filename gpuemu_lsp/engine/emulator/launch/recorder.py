"""Recording of one block of a launch: the tables that recording versions fill, and memory as it was.

A recording is a database of one block: every result of every instruction of its warps, in the order in which they were
executed, and a picture of memory at the block's start. What happened is looked up in it, forwards and backwards;
nothing is executed again. It is made by a version of the code of its own, whose checkers, schedule and values are those
of every other version.
"""

from __future__ import annotations

import ctypes
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import Shadow
from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.abi.structs import BlockRecord, LaunchRecord, RecordedRun, RecordingRecord
from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.codegen.core.recording_layout import BlockLayout
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch
from gpuemu_lsp.engine.emulator.versions.tiering import LaunchVersions
from gpuemu_lsp.engine.execution import Bytes, Dim3

_CALL = ctypes.CFUNCTYPE(None)

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
    """The most that a recording holds; pages that are not written use no memory."""

    payload_bytes: int = 256 << 20
    runs: int = 4 << 20


DEFAULT_LIMITS: Final = RecordingLimits()


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
class BlockRecording:
    """What one block of a launch did.

    ``runs`` has an entry of :data:`RUN` for each execution of a basic block by a warp, in the order of execution;
    ``payload`` their results, in the ``layouts`` of the specialised and the scalar-PC version. ``memory`` is what it
    was before the first run, or before the run that was asked for. ``shared`` and ``local`` are the addresses of the
    block's shared memory and of its first thread's local memory, ``variables`` those of the module's variables.
    ``lost`` counts runs for which there was no space: the recording then ends before the block does.
    """

    program: Program
    graph: ControlFlowGraph
    block: int
    grid: Dim3
    threads: Dim3
    fill: int
    runs: npt.NDArray[np.void]
    payload: Bytes
    layouts: tuple[tuple[BlockLayout, ...], tuple[BlockLayout, ...]]
    memory: tuple[MemoryPicture, ...]
    shared: int
    local: int
    variables: Mapping[str, int]
    lost: int

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
    """Records block ``block``, a linear number, of the launch that it is attached to.

    ``picture_at`` is the number of the run before which memory is copied.
    """

    def __init__(self, block: int, limits: RecordingLimits, picture_at: int = 0) -> None:
        self._block, self._limits, self._picture_at = block, limits, picture_at
        self._memory: tuple[MemoryPicture, ...] = ()
        self._shared = self._local = 0
        self._call = _CALL(self._take_picture)

    @property
    def has_started(self) -> bool:
        """Whether the launch has reached the run before which memory is copied."""
        return bool(self._memory)

    def attach(self, prepared: PreparedLaunch, versions: LaunchVersions) -> None:
        """Record the launch ``prepared``; what was recorded before is dropped."""
        self._prepared, self._versions, self._memory = prepared, versions, ()
        layouts = versions.recording_layouts()
        largest = max((layout.size for version in layouts for layout in version), default=0)
        # Reserved, not committed: the system maps a page when it is first written.
        self._payload = np.empty(self._limits.payload_bytes + largest, dtype=np.uint8)
        self._runs = np.empty(self._limits.runs, dtype=RUN)
        self._spare = Record(max(largest, 8))
        self._record = Record(RecordingRecord.SIZE)
        for field, value in (
            (RecordingRecord.BLOCK, self._block),
            (RecordingRecord.RUNS, self._runs.ctypes.data),
            (RecordingRecord.LIMIT, self._limits.runs),
            (RecordingRecord.PAYLOAD, self._payload.ctypes.data),
            (RecordingRecord.PAYLOAD_LIMIT, self._limits.payload_bytes),
            (RecordingRecord.SPARE, self._spare.address),
            (RecordingRecord.PICTURE_AT, self._picture_at),
            (RecordingRecord.PICTURE_CALLBACK, ctypes.cast(self._call, ctypes.c_void_p).value or 0),
        ):
            self._record.set(field, value)
        prepared.launch.set(LaunchRecord.RECORDING, self._record.address)

    def recording(self) -> BlockRecording:
        """Return the recording of the launch, which has ended."""
        prepared, request = self._prepared, self._prepared.request
        return BlockRecording(
            program=prepared.kernel.program,
            graph=prepared.kernel.graph,
            block=self._block,
            grid=request.grid,
            threads=request.block,
            fill=request.fill,
            # Views: a copy would double the memory, and what is behind them was never written.
            runs=self._runs[: self._record.get(RecordingRecord.COUNT)],
            payload=self._payload[: self._record.get(RecordingRecord.USED)],
            layouts=self._versions.recording_layouts(),
            memory=self._memory,
            shared=self._shared,
            local=self._local,
            variables={name: region.address for name, region in prepared.module_variables.items()},
            lost=self._record.get(RecordingRecord.LOST),
        )

    def _take_picture(self) -> None:
        """Copy the memory that the recorded block can access; called by generated code."""
        prepared = self._prepared
        resident = next(one for one in prepared.residents if one.record.get(BlockRecord.LINEAR) == self._block)
        self._shared, self._local = resident.shared.address, resident.local.address
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

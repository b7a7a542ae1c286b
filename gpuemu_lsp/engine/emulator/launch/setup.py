"""Memory and records of one launch, and of the blocks that are under way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import POISON, REDZONE, Shadow
from gpuemu_lsp.engine.emulator.abi.records import Record, RecordView
from gpuemu_lsp.engine.emulator.abi.states import EVENT_KINDS, Status
from gpuemu_lsp.engine.emulator.abi.structs import STACK_BYTES, BlockRecord, CopyQueue, EventRecord, LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.arena import Arena, ArenaFullError, Region
from gpuemu_lsp.engine.emulator.launch.arguments import (
    place_buffers,
    place_parameters,
    place_variables,
    readable_buffers,
)
from gpuemu_lsp.engine.emulator.launch.heap import HEAP_BYTES, Heap
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.execution import Request

EVENT_LIMIT = 256
QUANTUM = 1 << 12
YIELDS_PER_CALL = 64
BARRIERS_PER_CALL = 1 << 13
_MOST_SHARED = 227 * 1024
"""Bytes of shared memory per block, on sm_90 and later (CUDA Programming Guide, technical specifications)."""
GRID_WORKSPACE_BYTES = 64
"""What cooperative groups keep for a grid: a size and a barrier."""


@dataclass(slots=True)
class ResidentBlock:
    """A block that is under way: its record, its warps' contexts, its memory."""

    record: Record
    warps: Record
    copies: Record | None
    shared: Region
    local: Region
    number: int = 0
    under_way: bool = False
    arrivals: dict[int, int] = field(default_factory=dict)
    asked: int = 0


@dataclass(slots=True)
class PreparedLaunch:
    """A launch ready to run."""

    request: Request
    kernel: CompiledKernel
    arena: Arena
    launch: Record
    events: Record
    counts: Record
    reached: Record
    parted: Record
    readable: Record
    symbols: Record
    shared_shadow: npt.NDArray[np.uint8]
    buffers: dict[str, Region]
    module_variables: dict[str, Region]
    heap: Heap | None = None
    residents: list[ResidentBlock] = field(default_factory=list)
    grown: Callable[[], None] = lambda: None
    """Called when the launch has taken more memory."""

    @property
    def threads(self) -> int:
        """Threads to a block."""
        x, y, z = self.request.block
        return x * y * z

    @property
    def warp_count(self) -> int:
        """Warps to a block."""
        return -(-self.threads // WARP_SIZE)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        x, y, z = self.request.grid
        return x * y * z

    def warp(self, resident: ResidentBlock, index: int) -> RecordView:
        """Return the context of one warp."""
        return resident.warps.at(index * self.kernel.context_bytes)

    def add_resident(self) -> ResidentBlock:
        """Make room for one more block under way."""
        resident = _resident(self)
        self.residents.append(resident)
        self.grown()
        return resident

    def focus(self, resident: ResidentBlock) -> None:
        """Make the inner scheduler work on this block."""
        launch = self.launch
        launch.set(LaunchRecord.WARPS, resident.warps.address)
        launch.set(LaunchRecord.BLOCK, resident.record.address)
        launch.set(LaunchRecord.LOCAL, resident.local.address)


def prepare(request: Request, kernel: CompiledKernel, arena: Arena, callback: int) -> PreparedLaunch:
    """Lay out a launch in a fresh arena.

    Raises
    ------
    ArenaFullError
        If it needs too much memory.
    ValueError
        If the arguments do not fit the kernel's parameters.
    """
    arena.reset()
    program = kernel.program
    symbols = Record(max(8 * len(kernel.symbols), 8))
    launch = Record(LaunchRecord.SIZE)
    variables = place_variables(kernel, arena, symbols, launch)
    buffers = place_buffers(request, arena)
    params = place_parameters(request, kernel, arena, buffers)
    readable = readable_buffers(request, buffers)
    events = Record(EVENT_LIMIT * EventRecord.SIZE)
    counts = Record(max(len(kernel.sites), 1) * EVENT_KINDS * 8)
    reached = Record(max(len(kernel.sites), 1))
    parted = Record(4 * len(program.blocks))
    fresh = Shadow.ADDRESSABLE | (0 if request.checks.uninitialized else Shadow.INITIALISED)
    shadow = _shared_shadow(request, kernel, fresh)
    prepared = PreparedLaunch(
        request, kernel, arena, launch, events, counts, reached, parted, readable, symbols, shadow, buffers, variables
    )
    _describe(prepared, params, fresh, callback)
    if program.calls_malloc:
        prepared.heap = Heap(arena, arena.take("device heap", "variable", HEAP_BYTES), fresh)
    if program.reads_grid_workspace:
        workspace = arena.take("grid workspace", "variable", GRID_WORKSPACE_BYTES)
        arena.fill(workspace, np.zeros(GRID_WORKSPACE_BYTES, dtype=np.uint8))
        launch.set(LaunchRecord.GRID_WORKSPACE, workspace.address)
    _watch(request, arena, launch, buffers)
    first = prepared.add_resident()
    prepared.focus(first)
    return prepared


def _describe(prepared: PreparedLaunch, params: Region, fresh: int, callback: int) -> None:
    """Fill the launch's record."""
    request, launch, shadow = prepared.request, prepared.launch, prepared.shared_shadow
    x, y, z = request.block
    for target, value in (
        (LaunchRecord.GRID_X, request.grid[0]),
        (LaunchRecord.GRID_Y, request.grid[1]),
        (LaunchRecord.GRID_Z, request.grid[2]),
        (LaunchRecord.NTID_X, x),
        (LaunchRecord.NTID_Y, y),
        (LaunchRecord.NTID_Z, z),
        (LaunchRecord.DYNAMIC_SHARED, request.shared_bytes),
        (LaunchRecord.TOTAL_SHARED, prepared.kernel.program.dynamic_shared + request.shared_bytes),
        (LaunchRecord.QUANTUM, QUANTUM),
        (LaunchRecord.YIELDS_LEFT, YIELDS_PER_CALL),
        (LaunchRecord.BARRIERS_LEFT, BARRIERS_PER_CALL),
        (LaunchRecord.WARP_COUNT, prepared.warp_count),
        (LaunchRecord.BLOCK_THREADS, prepared.threads),
        (LaunchRecord.FRESH_SHADOW, fresh),
        (LaunchRecord.PARAMS, params.address),
        (LaunchRecord.PARAMS_SIZE, params.size),
        (LaunchRecord.SHARED_SIZE, len(shadow)),
        (LaunchRecord.SHARED_RESET_SIZE, len(shadow) if shadow.any() else 0),
        (LaunchRecord.SHARED_SHADOW, shadow.ctypes.data),
        (LaunchRecord.SYMBOLS, prepared.symbols.address),
        (LaunchRecord.EVENTS, prepared.events.address),
        (LaunchRecord.EVENT_LIMIT, EVENT_LIMIT),
        (LaunchRecord.COUNTS, prepared.counts.address),
        (LaunchRecord.COVERAGE, prepared.reached.address),
        (LaunchRecord.DIVERGENCE_COUNTS, prepared.parted.address),
        (LaunchRecord.READABLE_BUFFERS, prepared.readable.address),
        (LaunchRecord.LOCAL_FRAME, max(prepared.kernel.program.local_bytes, 1)),
        (LaunchRecord.CALLBACK, callback),
        (LaunchRecord.WARP_STRIDE, prepared.kernel.context_bytes),
        (LaunchRecord.BLOCK_END, prepared.blocks),
        (LaunchRecord.WATCH_SITE, -1),
        (LaunchRecord.ARENA, prepared.arena.address),
    ):
        launch.set(target, value)


def _shared_shadow(request: Request, kernel: CompiledKernel, fresh: int) -> npt.NDArray[np.uint8]:
    """Return the shadow of fresh shared memory: variables addressable, the gaps between them not."""
    program = kernel.program
    size = program.dynamic_shared + request.shared_bytes
    if size > _MOST_SHARED:
        raise ArenaFullError(f"{size} bytes of shared memory for a block, and no GPU has more than {_MOST_SHARED}")
    shadow = np.zeros(-(-max(size, 1) // 16) * 16, dtype=np.uint8)
    for slot in program.shared.values():
        shadow[slot.offset : slot.offset + slot.size] = fresh
    shadow[program.dynamic_shared : size] = fresh
    return shadow


def _watch(request: Request, arena: Arena, launch: Record, buffers: dict[str, Region]) -> None:
    watch = request.watch
    region = buffers.get(watch.buffer) if watch is not None else None
    if watch is None or region is None:
        return
    low = region.address + watch.offset
    launch.set(LaunchRecord.WATCH_LOW, low)
    launch.set(LaunchRecord.WATCH_HIGH, low + watch.size)
    arena.shadow(low, watch.size)[:] |= Shadow.WATCHED


def _resident(prepared: PreparedLaunch) -> ResidentBlock:
    kernel, request, arena = prepared.kernel, prepared.request, prepared.arena
    count = prepared.warp_count
    frame = max(kernel.program.local_bytes, 1)
    shared = arena.take("shared memory", "shared", len(prepared.shared_shadow), guard=2 * REDZONE)
    local = arena.take("local memory", "local", frame * count * WARP_SIZE)
    record = Record(BlockRecord.SIZE)
    record.set(BlockRecord.SHARED, shared.address)
    warps = Record(kernel.context_bytes * count)
    copies = Record(CopyQueue.SIZE * count) if kernel.program.has_async_copies else None
    record.set(BlockRecord.COPIES, copies.address if copies is not None else 0)
    resident = ResidentBlock(record, warps, copies, shared, local)
    stack = arena.take("call stack", "stack", STACK_BYTES * count * WARP_SIZE) if kernel.program.recursive else None
    # The arena has grown: everything handed out may be touched.
    prepared.launch.set(LaunchRecord.ARENA_SIZE, arena.size)
    arena.data(shared.address, shared.size)[:] = POISON
    prepared.launch.set(LaunchRecord.LOCAL_SIZE, local.size if kernel.program.local_bytes else 0)
    x, y, _ = request.block
    for index in range(count):
        context = warps.at(index * kernel.context_bytes)
        linear = np.arange(index * WARP_SIZE, (index + 1) * WARP_SIZE)
        context.row(Warp.TID_X)[:] = linear % x
        context.row(Warp.TID_Y)[:] = linear // x % y
        context.row(Warp.TID_Z)[:] = linear // (x * y)
        present = min(prepared.threads - index * WARP_SIZE, WARP_SIZE)
        context.set(Warp.THREAD_MASK, (1 << present) - 1)
        context.set(Warp.WARP_ID, index)
        context.set(Warp.STATUS, Status.READY)
        context.set(Warp.LAUNCH, prepared.launch.address)
        context.set(Warp.BLOCK, record.address)
        context.set(Warp.LOCAL, local.address + index * WARP_SIZE * frame)
        if stack is not None:
            context.set(Warp.STACK_BASE, stack.address + index * WARP_SIZE * STACK_BYTES)
    return resident

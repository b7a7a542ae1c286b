"""Sets up a launch: memory in the arena, records, tables, and the first resident block."""

from __future__ import annotations

from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.memory import REDZONE, Shadow
from gpuemu_lsp.engine.emulator.abi.records import Record
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
from gpuemu_lsp.engine.emulator.launch.device_runtime import HEAP_BYTES, Heap
from gpuemu_lsp.engine.emulator.launch.host_addresses import translate_to_arena
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.execution import Request

EVENT_LIMIT: Final = 256
"""Event records of a launch; further events are counted only."""

QUANTUM: Final = 1 << 12
"""Backward jumps after which a warp yields: long enough that the switch costs nothing, short enough for spin loops."""

YIELDS_PER_CALL: Final = 64
BARRIERS_PER_CALL: Final = 1 << 13
"""Yields, and barriers released, after which the generated block scheduler returns to Python to test the limits."""

_MAX_SHARED: Final = 227 * 1024
"""Bytes of shared memory per block, on sm_90 and later (CUDA programming guide, technical specifications)."""

_GRID_WORKSPACE_BYTES: Final = 64
"""Cooperative groups' workspace of a grid: its size and the state of its barrier."""


def prepare(request: Request, kernel: CompiledKernel, arena: Arena, callback: int) -> PreparedLaunch:
    """Lay out a launch in the arena, which is reset; ``callback`` is the device runtime's address.

    Raises
    ------
    ArenaFullError
        If it needs too much memory.
    ValueError
        If the arguments do not fit the kernel's parameters.
    """
    arena.reset()
    program = kernel.program
    symbols = Record(max(8 * len(kernel.symbol_indices), 8))
    launch = Record(LaunchRecord.SIZE)
    variables = place_variables(kernel, arena, symbols, launch)
    buffers = place_buffers(request, arena)
    translate_to_arena(request, arena, buffers)
    params = place_parameters(request, kernel, arena, buffers)
    readable = readable_buffers(request, buffers)
    events = arena.record("events", EVENT_LIMIT * EventRecord.SIZE)
    event_counts = arena.record("event counts", max(len(kernel.sites), 1) * EVENT_KINDS * 8)
    coverage = Record(max(len(kernel.sites), 1))
    divergence_counts = Record(4 * len(program.blocks))
    fresh = Shadow.ADDRESSABLE | (0 if request.checks.uninitialized else Shadow.INITIALISED)
    shadow = _shared_shadow(request, kernel, fresh)
    prepared = PreparedLaunch(
        request=request,
        kernel=kernel,
        arena=arena,
        launch=launch,
        events=events,
        event_counts=event_counts,
        coverage=coverage,
        divergence_counts=divergence_counts,
        readable_buffers=readable,
        symbols=symbols,
        shared_shadow=shadow,
        buffers=buffers,
        module_variables=variables,
    )
    _fill_launch_record(prepared, params, fresh, callback)
    if program.calls_malloc:
        prepared.heap = Heap(arena, arena.allocate("device heap", "variable", HEAP_BYTES), fresh)
    if program.reads_grid_workspace:
        workspace = arena.allocate("grid workspace", "variable", _GRID_WORKSPACE_BYTES)
        arena.fill(workspace, np.zeros(_GRID_WORKSPACE_BYTES, dtype=np.uint8))
        launch.set(LaunchRecord.GRID_WORKSPACE, workspace.address)
    _watch(request, arena, launch, buffers)
    prepared.focus(add_resident(prepared))
    return prepared


def _fill_launch_record(prepared: PreparedLaunch, params: Region, fresh: int, callback: int) -> None:
    """Fill in the launch record; the rest of its fields start at 0."""
    request, launch, shadow = prepared.request, prepared.launch, prepared.shared_shadow
    x, y, z = request.block
    for field, value in (
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
        (LaunchRecord.FILL, request.fill),
        (LaunchRecord.FIRST_OF_DESCENDING, prepared.blocks - 1 if request.descending else 0),
        (LaunchRecord.SYMBOLS, prepared.symbols.address),
        (LaunchRecord.EVENTS, prepared.events.address),
        (LaunchRecord.EVENT_LIMIT, EVENT_LIMIT),
        (LaunchRecord.COUNTS, prepared.event_counts.address),
        (LaunchRecord.COVERAGE, prepared.coverage.address),
        (LaunchRecord.DIVERGENCE_COUNTS, prepared.divergence_counts.address),
        (LaunchRecord.READABLE_BUFFERS, prepared.readable_buffers.address),
        (LaunchRecord.LOCAL_FRAME, max(prepared.kernel.program.local_bytes, 1)),
        (LaunchRecord.CALLBACK, callback),
        (LaunchRecord.BLOCK_END, prepared.blocks),
        (LaunchRecord.WATCH_SITE, -1),
        (LaunchRecord.ARENA, prepared.arena.address),
    ):
        launch.set(field, value)


def _shared_shadow(request: Request, kernel: CompiledKernel, fresh: int) -> npt.NDArray[np.uint8]:
    """Return the shadow bytes of shared memory at the start of a block: gaps between variables are not addressable."""
    program = kernel.program
    size = program.dynamic_shared + request.shared_bytes
    if size > _MAX_SHARED:
        raise ArenaFullError(f"{size} bytes of shared memory for a block, and no GPU has more than {_MAX_SHARED}")
    shadow = np.zeros(-(-max(size, 1) // 16) * 16, dtype=np.uint8)
    for slot in program.shared.values():
        shadow[slot.offset : slot.offset + slot.size] = fresh
    shadow[program.dynamic_shared : size] = fresh
    return shadow


def _watch(request: Request, arena: Arena, launch: Record, buffers: dict[str, Region]) -> None:
    """Record the last writer of the bytes that the request names."""
    watch = request.watch
    region = buffers.get(watch.buffer) if watch is not None else None
    if watch is None or region is None:
        return
    low = region.address + watch.offset
    launch.set(LaunchRecord.WATCH_LOW, low)
    launch.set(LaunchRecord.WATCH_HIGH, low + watch.size)
    arena.shadow(low, watch.size)[:] |= Shadow.WATCHED


def add_resident(prepared: PreparedLaunch) -> ResidentBlock:
    """Allocate memory and records for one more resident block."""
    resident = _resident(prepared)
    prepared.residents.append(resident)
    prepared.on_growth()
    return resident


@lru_cache(maxsize=256)
def _thread_indices(x: int, y: int, warp: int) -> npt.NDArray[np.int32]:
    """Return the indices x, y and z of the threads of a warp, in blocks with these dimensions, as rows."""
    linear = np.arange(warp * WARP_SIZE, (warp + 1) * WARP_SIZE, dtype=np.int32)
    return np.stack([linear % x, linear // x % y, linear // (x * y)])


def _resident(prepared: PreparedLaunch) -> ResidentBlock:
    kernel, request, arena = prepared.kernel, prepared.request, prepared.arena
    count = prepared.warp_count
    frame = max(kernel.program.local_bytes, 1)
    shared = arena.allocate("shared memory", "shared", len(prepared.shared_shadow), guard=2 * REDZONE)
    local = arena.allocate("local memory", "local", frame * count * WARP_SIZE)
    record = Record(BlockRecord.SIZE)
    record.set(BlockRecord.SHARED, shared.address)
    size = kernel.context_bytes * count
    warps = Record(size) if prepared.residents else arena.record("warps", size)
    copies = Record(CopyQueue.SIZE * count) if kernel.program.has_async_copies else None
    record.set(BlockRecord.COPIES, copies.address if copies is not None else 0)
    resident = ResidentBlock(record, warps, copies, shared, local)
    stack = arena.allocate("call stack", "stack", STACK_BYTES * count * WARP_SIZE) if kernel.program.recursive else None
    # The arena has grown: the bounds check must admit the new memory.
    prepared.launch.set(LaunchRecord.ARENA_SIZE, arena.size)
    arena.data(shared.address, shared.size)[:] = request.fill
    prepared.launch.set(LaunchRecord.LOCAL_SIZE, local.size if kernel.program.local_bytes else 0)
    x, y, _ = request.block
    for index in range(count):
        context = warps.at(index * kernel.context_bytes)
        for field, row in zip((Warp.TID_X, Warp.TID_Y, Warp.TID_Z), _thread_indices(x, y, index), strict=True):
            context.row(field)[:] = row
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

"""Sets up a launch: memory in the arena, records, tables, and the first resident block."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.access_flags import Window
from gpuemu_lsp.engine.emulator.abi.memory import REDZONE, UNMAPPED, Shadow
from gpuemu_lsp.engine.emulator.abi.records import FieldGroup, Record
from gpuemu_lsp.engine.emulator.abi.states import EVENT_KINDS, Status
from gpuemu_lsp.engine.emulator.abi.structs import (
    CLUSTER_WINDOWS,
    STACK_BYTES,
    BlockRecord,
    CopyQueue,
    EventRecord,
    LaunchRecord,
    Warp,
)
from gpuemu_lsp.engine.emulator.ir.lattice import WARP_SIZE
from gpuemu_lsp.engine.emulator.launch.arena import Arena, ArenaFullError
from gpuemu_lsp.engine.emulator.launch.arguments import (
    place_buffers,
    place_parameters,
    place_variables,
    readable_buffers,
    store_windows,
)
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region
from gpuemu_lsp.engine.emulator.launch.device_runtime import HEAP_BYTES, Heap
from gpuemu_lsp.engine.emulator.launch.host_addresses import translate_to_arena
from gpuemu_lsp.engine.emulator.launch.state import PreparedLaunch, ResidentBlock
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.execution import Dim3, Request

EVENT_LIMIT: Final = 256
"""Event records of a launch; further events are counted only."""

QUANTUM: Final = 1 << 12
"""Backward jumps after which a warp yields: long enough that the switch costs nothing, short enough for spin loops."""

SPIN_QUANTUM: Final = 16
"""The same in kernels that wait for phases of ``mbarrier`` objects, or with clusters: dozens of warps may wait in turn,
and where there are bulk copies each turn of such a loop calls Python."""

YIELDS_PER_CALL: Final = 64
BARRIERS_PER_CALL: Final = 1 << 13
"""Yields, and barriers released, after which the generated block scheduler returns to Python to test the limits."""

_MAX_SHARED: Final = 227 * 1024
"""Bytes of shared memory per block, on sm_90 and later (CUDA programming guide, technical specifications)."""

_SHARED_ALIGNMENT: Final = 1024
"""Alignment of the generic address of a block's shared memory: programs compute swizzles of 1,024 bytes from it."""

_GRID_WORKSPACE_BYTES: Final = 64
"""Cooperative groups' workspace of a grid: its size and the state of its barrier."""


_PREPARED = FieldGroup(
    LaunchRecord.GRID_X,
    LaunchRecord.GRID_Y,
    LaunchRecord.GRID_Z,
    LaunchRecord.NTID_X,
    LaunchRecord.NTID_Y,
    LaunchRecord.NTID_Z,
    LaunchRecord.DYNAMIC_SHARED,
    LaunchRecord.TOTAL_SHARED,
    LaunchRecord.QUANTUM,
    LaunchRecord.YIELDS_LEFT,
    LaunchRecord.BARRIERS_LEFT,
    LaunchRecord.WARP_COUNT,
    LaunchRecord.BLOCK_THREADS,
    LaunchRecord.FRESH_SHADOW,
    LaunchRecord.PARAMS,
    LaunchRecord.PARAMS_SIZE,
    LaunchRecord.SHARED_SIZE,
    LaunchRecord.SHARED_RESET_SIZE,
    LaunchRecord.SHARED_SHADOW,
    LaunchRecord.FILL,
    LaunchRecord.FIRST_OF_DESCENDING,
    LaunchRecord.SYMBOLS,
    LaunchRecord.EVENTS,
    LaunchRecord.EVENT_LIMIT,
    LaunchRecord.COUNTS,
    LaunchRecord.HIGHEST,
    LaunchRecord.COVERAGE,
    LaunchRecord.DIVERGENCE_COUNTS,
    LaunchRecord.READABLE_BUFFERS,
    LaunchRecord.LOCAL_FRAME,
    LaunchRecord.CALLBACK,
    LaunchRecord.BLOCK_END,
    LaunchRecord.WATCH_SITE,
    LaunchRecord.ARENA,
    LaunchRecord.CLUSTER_X,
    LaunchRecord.CLUSTER_Y,
    LaunchRecord.CLUSTER_Z,
    LaunchRecord.CLUSTERS_X,
    LaunchRecord.CLUSTERS_Y,
    LaunchRecord.CLUSTERS_Z,
    LaunchRecord.CLUSTER_BLOCKS,
    LaunchRecord.IS_CLUSTER,
)
"""Fields of the launch record that do not start at 0, in the order of :func:`_fill_launch_record`."""


def prepare(
    request: Request,
    kernel: CompiledKernel,
    arena: Arena,
    callback: int,
    may_start_again: Callable[[], bool],
    windows: tuple[tuple[str, Window], ...] = (),
) -> PreparedLaunch:
    """Lay out a launch in the arena, which is reset; ``callback`` is the device runtime's address.

    ``may_start_again`` says whether the launch may have to begin once more, with memory as it was; ``windows`` are
    those of buffers that code which claims memory writes.

    Raises
    ------
    ArenaFullError
        If it needs too much memory.
    ValueError
        If the arguments do not fit the kernel's parameters.
    """
    if arena.lasting is not None and arena.lasting.has_large_arrays:
        arena.lasting.expect(kernel.stores, may_start_again)
    arena.reset()
    program = kernel.program
    symbols = arena.record("symbols", max(8 * len(kernel.symbol_indices), 8))
    launch = arena.record("launch", LaunchRecord.SIZE)
    variables = place_variables(request, kernel, arena, symbols, launch)
    buffers = place_buffers(request, kernel, arena, variables)
    store_windows(arena, launch, buffers, windows)
    translate_to_arena(request, arena, buffers)
    params = place_parameters(request, kernel, arena, buffers)
    readable = readable_buffers(request, arena, buffers)
    events = arena.record("events", EVENT_LIMIT * EventRecord.SIZE)
    event_counts = arena.record("event counts", max(len(kernel.sites), 1) * EVENT_KINDS * 8)
    highest_addresses = arena.record("highest addresses", event_counts.bytes.size)
    coverage = arena.record("coverage", max(len(kernel.sites), 1))
    divergence_counts = arena.record("divergence counts", 4 * len(program.blocks))
    fresh = Shadow.ADDRESSABLE | (0 if request.checks.uninitialized else Shadow.INITIALISED)
    shadow = _shared_shadow(request, kernel, arena, fresh)
    prepared = PreparedLaunch(
        request=request,
        kernel=kernel,
        arena=arena,
        launch=launch,
        events=events,
        event_counts=event_counts,
        highest_addresses=highest_addresses,
        coverage=coverage,
        divergence_counts=divergence_counts,
        readable_buffers=readable,
        symbols=symbols,
        shared_shadow=shadow,
        buffers=buffers,
        module_variables=variables,
        cluster=request.cluster or cluster_dims(program.required_cluster),
    )
    _fill_launch_record(prepared, params, fresh, callback)
    lasting = arena.lasting
    if lasting is not None and lasting.heap is not None:
        prepared.heap = Heap(arena, lasting.heap, fresh, lasting.launch_blocks)
    elif program.calls_malloc:
        prepared.heap = Heap(arena, arena.allocate("device heap", "variable", HEAP_BYTES), fresh)
    if program.reads_grid_workspace:
        workspace = arena.allocate("grid workspace", "variable", _GRID_WORKSPACE_BYTES)
        arena.fill(workspace, np.zeros(_GRID_WORKSPACE_BYTES, dtype=np.uint8))
        launch.set(LaunchRecord.GRID_WORKSPACE, workspace.address)
    _watch(request, arena, launch, buffers)
    prepared.focus(add_resident(prepared))
    return prepared


def cluster_dims(required: tuple[int, ...]) -> Dim3:
    """Return the blocks of a cluster by dimension, from a ``.reqnctapercluster`` that may have fewer."""
    x, y, z = (*required, 1, 1, 1)[:3]
    return x, y, z


def _fill_launch_record(prepared: PreparedLaunch, params: Region, fresh: int, callback: int) -> None:
    """Fill in the launch record; the rest of its fields start at 0."""
    request, launch, shadow = prepared.request, prepared.launch, prepared.shared_shadow
    program = prepared.kernel.program
    x, y, z = request.block
    shared = program.dynamic_shared + request.shared_bytes
    values = (
        request.grid[0],
        request.grid[1],
        request.grid[2],
        x,
        y,
        z,
        request.shared_bytes,
        shared,
        SPIN_QUANTUM if program.waits_for_phases or program.spans_blocks else QUANTUM,
        YIELDS_PER_CALL,
        BARRIERS_PER_CALL,
        prepared.warp_count,
        prepared.threads,
        fresh,
        params.address,
        params.size,
        shadow.bytes.size,
        shadow.bytes.size if shared else 0,
        shadow.address,
        request.fill,
        prepared.blocks - 1 if request.descending else 0,
        prepared.symbols.address,
        prepared.events.address,
        EVENT_LIMIT,
        prepared.event_counts.address,
        prepared.highest_addresses.address,
        prepared.coverage.address,
        prepared.divergence_counts.address,
        prepared.readable_buffers.address,
        max(prepared.kernel.program.local_bytes, 1),
        callback,
        prepared.blocks,
        -1,
        prepared.arena.address,
        *prepared.cluster,
        *(whole // part for whole, part in zip(request.grid, prepared.cluster, strict=True)),
        prepared.cluster_blocks,
        int(request.cluster is not None or bool(prepared.kernel.program.required_cluster)),
    )
    launch.set_group(_PREPARED, values)


def _shared_shadow(request: Request, kernel: CompiledKernel, arena: Arena, fresh: int) -> Record:
    """Return the shadow bytes of shared memory at the start of a block: gaps between variables are not addressable."""
    program = kernel.program
    size = program.dynamic_shared + request.shared_bytes
    if size > _MAX_SHARED:
        raise ArenaFullError(f"{size} bytes of shared memory for a block, and no GPU has more than {_MAX_SHARED}")
    shadow = arena.record("shared shadow", -(-max(size, 1) // 16) * 16)
    for slot in program.shared.values():
        shadow.bytes[slot.offset : slot.offset + slot.size] = fresh
    shadow.bytes[program.dynamic_shared : size] = fresh
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
    resident = _resident(prepared, "" if not prepared.residents else None)
    prepared.residents.append(resident)
    prepared.on_growth()
    return resident


def copy_for_thread(prepared: PreparedLaunch, index: int) -> PreparedLaunch:
    """Return a launch for another host thread, with records of its own and a resident block.

    Accesses to global memory do not reach the memory of the block, which lies behind their range.
    """
    arena, suffix = prepared.arena, f" of thread {index}"

    def table(name: str, like: Record) -> Record:
        return arena.record(name + suffix, like.bytes.size)

    launch = table("launch", prepared.launch)
    launch.bytes[:] = prepared.launch.bytes
    copy = replace(
        prepared,
        launch=launch,
        events=table("events", prepared.events),
        event_counts=table("event counts", prepared.event_counts),
        highest_addresses=table("highest addresses", prepared.highest_addresses),
        coverage=table("coverage", prepared.coverage),
        divergence_counts=table("divergence counts", prepared.divergence_counts),
        residents=[],
        free_windows=[],
        on_growth=lambda: None,
    )
    with arena.apart():
        copy.residents.append(_resident(copy, suffix))
    for field, value in (
        (LaunchRecord.ARENA_SIZE, prepared.launch.get(LaunchRecord.ARENA_SIZE)),
        (LaunchRecord.EVENTS, copy.events.address),
        (LaunchRecord.COUNTS, copy.event_counts.address),
        (LaunchRecord.HIGHEST, copy.highest_addresses.address),
        (LaunchRecord.COVERAGE, copy.coverage.address),
        (LaunchRecord.DIVERGENCE_COUNTS, copy.divergence_counts.address),
        (LaunchRecord.EVENT_COUNT, 0),
        (LaunchRecord.MISSPECULATIONS, 0),
        (LaunchRecord.STEPS, 0),
        (LaunchRecord.RACE_HIGHEST_EPOCH, 0),
        (LaunchRecord.IN_BLOCK, 0),
        (LaunchRecord.BLOCK_END, 0),
        (LaunchRecord.RACE_PLANES, 0),
    ):
        launch.set(field, value)
    copy.focus(copy.residents[0])
    return copy


@lru_cache(maxsize=64)
def _initial_contexts(x: int, y: int, threads: int) -> npt.NDArray[np.int64]:
    """Return the contexts of the warps of a block before it starts, without addresses, as rows of 64-bit integers.

    ``x`` and ``y`` are dimensions of the block, ``threads`` is the number of its threads.
    """
    count = -(-threads // WARP_SIZE)
    record = Record(Warp.SIZE * count)
    linear = np.arange(count * WARP_SIZE, dtype=np.int32).reshape(count, WARP_SIZE)
    for index, row in enumerate(linear):
        context = record.at(index * Warp.SIZE)
        context.row(Warp.TID_X)[:] = row % x
        context.row(Warp.TID_Y)[:] = row // x % y
        context.row(Warp.TID_Z)[:] = row // (x * y)
        present = min(threads - index * WARP_SIZE, WARP_SIZE)
        context.set(Warp.THREAD_MASK, (1 << present) - 1)
        context.set(Warp.WARP_ID, index)
        context.set(Warp.STATUS, Status.READY)
    return record.table64(count * Warp.SIZE // 8).reshape(count, Warp.SIZE // 8)


def _shared_windows(prepared: PreparedLaunch) -> list[Region]:
    """Allocate shared memory: of all blocks of a cluster together, so that one range contains it."""
    arena, size = prepared.arena, prepared.shared_shadow.bytes.size
    windows = [
        arena.allocate("shared memory", "shared", size, guard=2 * REDZONE, alignment=_SHARED_ALIGNMENT)
        for _ in range(prepared.cluster_blocks)
    ]
    extent = windows[-1].address + windows[-1].size - windows[0].address
    prepared.launch.set(LaunchRecord.CLUSTER_SHARED_SIZE, extent)
    return windows


def _resident(prepared: PreparedLaunch, suffix: str | None) -> ResidentBlock:
    """Allocate a resident block; a ``suffix`` names records that are kept for the next launch."""

    def kept(name: str, size: int) -> Record:
        return Record(size) if suffix is None else arena.record(name + suffix, size)

    kernel, request, arena = prepared.kernel, prepared.request, prepared.arena
    count = prepared.warp_count
    frame = max(kernel.program.local_bytes, 1)
    if not prepared.free_windows:
        prepared.free_windows = _shared_windows(prepared)
    shared = prepared.free_windows.pop(0)
    local = arena.allocate("local memory", "local", frame * count * WARP_SIZE)
    record = kept("block", BlockRecord.SIZE)
    record.set(BlockRecord.SHARED, shared.address)
    windows = record.table64(BlockRecord.SIZE >> 3)[BlockRecord.WINDOWS >> 3 :][:CLUSTER_WINDOWS]
    windows[:] = arena.address + UNMAPPED
    windows[:2] = shared.address
    in_cluster = prepared.cluster_blocks > 1 and prepared.residents
    record.set(BlockRecord.CLUSTER_SHARED, prepared.residents[0].shared.address if in_cluster else shared.address)
    size = kernel.context_bytes * count
    warps = kept("warps", size)
    copies = Record(CopyQueue.SIZE * count) if kernel.program.has_async_copies else None
    record.set(BlockRecord.COPIES, copies.address if copies is not None else 0)
    resident = ResidentBlock(record, warps, copies, shared, local)
    stack = arena.allocate("call stack", "stack", STACK_BYTES * count * WARP_SIZE) if kernel.program.recursive else None
    # The arena has grown: the bounds check must admit the new memory.
    prepared.launch.set(LaunchRecord.ARENA_SIZE, arena.size)
    arena.data(shared.address, shared.size)[:] = request.fill
    prepared.launch.set(LaunchRecord.LOCAL_SIZE, local.size if kernel.program.local_bytes else 0)
    x, y, _ = request.block
    contexts = warps.table64(size // 8).reshape(count, kernel.context_bytes // 8)
    contexts[:, : Warp.SIZE // 8] = _initial_contexts(x, y, prepared.threads)
    contexts[:, Warp.LAUNCH >> 3] = prepared.launch.address
    contexts[:, Warp.BLOCK >> 3] = record.address
    lanes = np.arange(count) * WARP_SIZE
    contexts[:, Warp.LOCAL >> 3] = local.address + frame * lanes
    if stack is not None:
        contexts[:, Warp.STACK_BASE >> 3] = stack.address + STACK_BYTES * lanes
    return resident

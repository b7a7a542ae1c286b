"""Memory and records of one launch: arguments, variables, windows, contexts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.arena import Arena, Region
from gpuemu_lsp.engine.emulator.codegen.conductor import POISON
from gpuemu_lsp.engine.emulator.heap import HEAP_BYTES, Heap
from gpuemu_lsp.engine.emulator.kernels import Kernel
from gpuemu_lsp.engine.emulator.layout import (
    EVENT_SIZE,
    MOST_BYTES,
    SLACK,
    STACK_BYTES,
    Block,
    CopyQueue,
    Kind,
    Launch,
    Shadow,
    Status,
    Warp,
)
from gpuemu_lsp.engine.emulator.records import Record
from gpuemu_lsp.engine.emulator.shapes import WARP
from gpuemu_lsp.engine.execution import Buffer, Request

EVENT_LIMIT = 256
QUANTUM = 1 << 12
YIELDS = 64
MEETINGS = 1 << 13

GRID_WORKSPACE_BYTES = 64
"""What cooperative groups keep for a grid: a size and a barrier."""

_MAX_GUARD = 1 << 20

_FAR = 1 << 62
"""An address far from all others."""


@dataclass(slots=True)
class Resident:
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
class Prepared:
    """A launch ready to run."""

    request: Request
    kernel: Kernel
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
    residents: list[Resident] = field(default_factory=list)
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
        return -(-self.threads // WARP)

    @property
    def blocks(self) -> int:
        """Blocks of the grid."""
        x, y, z = self.request.grid
        return x * y * z

    def warp(self, resident: Resident, index: int) -> _Context:
        """Return the context of one warp."""
        return _Context(resident.warps, index * self.kernel.context_bytes)

    def add_resident(self) -> Resident:
        """Make room for one more block under way."""
        resident = _resident(self)
        self.residents.append(resident)
        self.grown()
        return resident

    def focus(self, resident: Resident) -> None:
        """Make the inner scheduler work on this block."""
        launch = self.launch
        launch.set64(Launch.WARPS, resident.warps.address)
        launch.set64(Launch.BLOCK, resident.record.address)
        launch.set64(Launch.LOCAL, resident.local.address)


class _Context:
    """Fields of one warp's context."""

    def __init__(self, record: Record, start: int) -> None:
        self._record, self._start = record, start

    def get(self, offset: int) -> int:
        return self._record.i32(self._start + offset)

    def mask(self, offset: int) -> int:
        return self._record.u32(self._start + offset)

    def set(self, offset: int, value: int) -> None:
        self._record.set32(self._start + offset, value)

    def get64(self, offset: int) -> int:
        return self._record.i64(self._start + offset)

    def set64(self, offset: int, value: int) -> None:
        self._record.set64(self._start + offset, value)

    def row(self, offset: int) -> npt.NDArray[np.int32]:
        return self._record.row32(self._start + offset)

    def row64(self, offset: int) -> npt.NDArray[np.int64]:
        return self._record.row64(self._start + offset)


Context = _Context


def prepare(request: Request, kernel: Kernel, arena: Arena, callback: int) -> Prepared:
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
    launch = Record(Launch.SIZE)
    variables = _variables(kernel, arena, symbols, launch)
    buffers = _buffers(request, arena)
    params = _parameters(request, kernel, arena, buffers)
    readable = _readable(request, buffers)
    events = Record(EVENT_LIMIT * EVENT_SIZE)
    counts = Record(max(len(kernel.sites), 1) * Kind.COUNT * 8)
    reached = Record(max(len(kernel.sites), 1))
    parted = Record(4 * len(program.blocks))
    fresh = Shadow.ADDRESSABLE | (0 if request.checks.uninitialized else Shadow.INITIALISED)
    shadow = _shared_shadow(request, kernel, fresh)
    prepared = Prepared(
        request, kernel, arena, launch, events, counts, reached, parted, readable, symbols, shadow, buffers, variables
    )
    x, y, z = request.block
    for offset, value in (
        (Launch.GRID_X, request.grid[0]),
        (Launch.GRID_Y, request.grid[1]),
        (Launch.GRID_Z, request.grid[2]),
        (Launch.NTID_X, x),
        (Launch.NTID_Y, y),
        (Launch.NTID_Z, z),
        (Launch.DYNAMIC_SHARED, request.shared_bytes),
        (Launch.TOTAL_SHARED, program.dynamic_shared + request.shared_bytes),
        (Launch.QUANTUM, QUANTUM),
        (Launch.YIELDS, YIELDS),
        (Launch.MEETINGS, MEETINGS),
        (Launch.WARP_COUNT, prepared.warp_count),
        (Launch.THREADS, prepared.threads),
        (Launch.SHADOW_FRESH, fresh),
    ):
        launch.set32(offset, value)
    for offset, value in (
        (Launch.PARAMS, params.address),
        (Launch.PARAMS_SIZE, params.size),
        (Launch.SHARED_SIZE, len(shadow)),
        (Launch.SHARED_LIMIT, len(shadow) if shadow.any() else 0),
        (Launch.SHARED_SHADOW, shadow.ctypes.data),
        (Launch.SYMBOLS, symbols.address),
        (Launch.EVENTS, events.address),
        (Launch.EVENT_LIMIT, EVENT_LIMIT),
        (Launch.COUNTS, counts.address),
        (Launch.COVERAGE, reached.address),
        (Launch.PARTED, parted.address),
        (Launch.READABLE, readable.address),
        (Launch.LOCAL_FRAME, max(program.local_bytes, 1)),
        (Launch.CALLBACK, callback),
        (Launch.WARP_SIZE, kernel.context_bytes),
        (Launch.BLOCK_END, prepared.blocks),
        (Launch.WATCH_SITE, -1),
        (Launch.ARENA, arena.address),
    ):
        launch.set64(offset, value)
    if program.allocates:
        prepared.heap = Heap(arena, arena.take("device heap", "variable", HEAP_BYTES), fresh)
    if program.grid_workspace:
        workspace = arena.take("grid workspace", "variable", GRID_WORKSPACE_BYTES)
        arena.fill(workspace, np.zeros(GRID_WORKSPACE_BYTES, dtype=np.uint8))
        launch.set64(Launch.GRID_WORKSPACE, workspace.address)
    _watch(request, arena, launch, buffers)
    first = prepared.add_resident()
    prepared.focus(first)
    return prepared


def _buffers(request: Request, arena: Arena) -> dict[str, Region]:
    regions: dict[str, Region] = {}
    for argument in request.arguments:
        if not isinstance(argument, Buffer):
            continue
        if argument.alias_of is not None and argument.alias_of in regions:
            regions[argument.name] = regions[argument.alias_of]
            continue
        size = int(argument.data.size)
        guard = max(request.guard_bytes, min(size, _MAX_GUARD))
        region = arena.take(
            argument.name, "buffer", size, guard=guard, offset=argument.offset, element=argument.element_size
        )
        known = argument.initialized or not request.checks.uninitialized
        arena.fill(region, argument.data, initialised=known)
        regions[argument.name] = region
    return regions


def _parameters(request: Request, kernel: Kernel, arena: Arena, buffers: dict[str, Region]) -> Region:
    """Write the parameter block; every argument goes where its parameter lies."""
    slots = list(kernel.program.params.values())
    if len(slots) != len(request.arguments):
        raise ValueError(f"{len(request.arguments)} arguments for {len(slots)} parameters of {request.entry}")
    image = np.zeros(max(kernel.program.param_bytes, 8), dtype=np.uint8)
    for slot, argument in zip(slots, request.arguments, strict=True):
        if isinstance(argument, Buffer):
            raw = buffers[argument.name].address.to_bytes(8, "little")
        else:
            raw = argument.data
        if len(raw) > slot.size:
            raise ValueError(f"argument `{argument.name}` has {len(raw)} bytes, its parameter {slot.size}")
        image[slot.offset : slot.offset + len(raw)] = np.frombuffer(raw, dtype=np.uint8)
    region = arena.take("parameters", "param", len(image))
    arena.fill(region, image, read_only=True)
    return region


def _readable(request: Request, buffers: dict[str, Region]) -> Record:
    """Return, for each argument, where its buffer lies and its size, if all of it may be read from the start on."""
    table = Record(16 * max(len(request.arguments), 1))
    whole: dict[str, bool] = {}
    for index, argument in enumerate(request.arguments):
        address, size = _FAR, MOST_BYTES
        if isinstance(argument, Buffer):
            initialised = argument.initialized or not request.checks.uninitialized
            whole[argument.name] = whole.get(argument.alias_of or "", initialised)
            region = buffers[argument.name]
            if whole[argument.name] and region.size >= MOST_BYTES and region.address % 32 == 0:
                address, size = region.address, region.size
        table.set64(16 * index, address)
        table.set64(16 * index + 8, size)
    return table


def _variables(kernel: Kernel, arena: Arena, symbols: Record, launch: Record) -> dict[str, Region]:
    """Place module variables: constants first, so that they form one window."""
    regions: dict[str, Region] = {}
    variables = sorted(kernel.program.variables.values(), key=lambda v: v.space != "const")
    for variable in variables:
        size = max(variable.size, 1)
        region = arena.take(variable.name, "variable", size, alignment=max(variable.alignment, 256))
        content = np.zeros(size, dtype=np.uint8)
        if variable.init is not None:
            content[: len(variable.init)] = np.frombuffer(variable.init, dtype=np.uint8)
        arena.fill(region, content, read_only=variable.space == "const")
        regions[variable.name] = region
        symbols.set64(8 * kernel.symbols[variable.name], region.address)
    constants = [regions[v.name] for v in variables if v.space == "const"]
    if constants:
        launch.set64(Launch.CONST_LOW, constants[0].address)
        launch.set64(Launch.CONST_SIZE, constants[-1].address + constants[-1].size - constants[0].address)
    for variable in variables:
        for offset, name, addend in variable.relocations:
            target = regions.get(name)
            address = target.address if target is not None else kernel.program.function_address(name)
            if address is not None:
                place = arena.data(regions[variable.name].address + offset, 8)
                place[:] = np.frombuffer((address + addend).to_bytes(8, "little"), dtype=np.uint8)
    return regions


def _shared_shadow(request: Request, kernel: Kernel, fresh: int) -> npt.NDArray[np.uint8]:
    """Return the shadow of fresh shared memory: variables addressable, the gaps between them not."""
    program = kernel.program
    size = program.dynamic_shared + request.shared_bytes
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
    launch.set64(Launch.WATCH_LOW, low)
    launch.set64(Launch.WATCH_HIGH, low + watch.size)
    arena.shadow(low, watch.size)[:] |= Shadow.WATCHED


def _resident(prepared: Prepared) -> Resident:
    kernel, request, arena = prepared.kernel, prepared.request, prepared.arena
    count = prepared.warp_count
    frame = max(kernel.program.local_bytes, 1)
    shared = arena.take("shared memory", "shared", len(prepared.shared_shadow), guard=2 * SLACK)
    local = arena.take("local memory", "local", frame * count * WARP)
    record = Record(Block.SIZE)
    record.set64(Block.SHARED, shared.address)
    warps = Record(kernel.context_bytes * count)
    copies = Record(CopyQueue.SIZE * count) if kernel.program.copies else None
    record.set64(Block.COPIES, copies.address if copies is not None else 0)
    resident = Resident(record, warps, copies, shared, local)
    stack = arena.take("call stack", "stack", STACK_BYTES * count * WARP) if kernel.program.recursive else None
    # The arena has grown: everything handed out may be touched.
    prepared.launch.set64(Launch.ARENA_SIZE, arena.size)
    arena.data(shared.address, shared.size)[:] = POISON
    prepared.launch.set64(Launch.LOCAL_SIZE, local.size if kernel.program.local_bytes else 0)
    x, y, _ = request.block
    for index in range(count):
        context = _Context(warps, index * kernel.context_bytes)
        linear = np.arange(index * WARP, (index + 1) * WARP)
        context.row(Warp.TID_X)[:] = linear % x
        context.row(Warp.TID_Y)[:] = linear // x % y
        context.row(Warp.TID_Z)[:] = linear // (x * y)
        present = min(prepared.threads - index * WARP, WARP)
        context.set(Warp.LANES, (1 << present) - 1)
        context.set(Warp.WARP_ID, index)
        context.set(Warp.STATUS, Status.READY)
        context.set64(Warp.LAUNCH, prepared.launch.address)
        context.set64(Warp.BLOCK, record.address)
        context.set64(Warp.LOCAL, local.address + index * WARP * frame)
        if stack is not None:
            context.set64(Warp.STACK_BASE, stack.address + index * WARP * STACK_BYTES)
    return resident

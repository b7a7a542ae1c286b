"""Placement of a launch's arguments in the arena: buffers, the parameter block, variables of the module."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import groupby

import numpy as np

from gpuemu_lsp.engine.emulator.abi.access_flags import Window
from gpuemu_lsp.engine.emulator.abi.memory import MAX_ACCESS_BYTES, REDZONE, Shadow
from gpuemu_lsp.engine.emulator.abi.records import Record
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, ReadableBuffer
from gpuemu_lsp.engine.emulator.analysis.block_claims import BlockClaims
from gpuemu_lsp.engine.emulator.launch.arena import Arena
from gpuemu_lsp.engine.emulator.launch.device_memory.region import Region
from gpuemu_lsp.engine.emulator.versions.compiled_kernel import CompiledKernel
from gpuemu_lsp.engine.execution import Buffer, Request, parameter_bytes
from gpuemu_lsp.engine.texture import is_texture

_MAX_GUARD = 1 << 20
"""Guard zones are as large as their buffer, up to this: an index that is wrong by a dimension stays inside them."""

_NO_BUFFER = 1 << 62
"""Address of the empty entry in the table of readable buffers, which no access is near."""


def place_buffers(
    request: Request, kernel: CompiledKernel, arena: Arena, variables: dict[str, Region]
) -> dict[str, Region]:
    """Allocate and fill the buffers; return the region of each, shared by those that alias.

    ``variables`` has the regions of module variables, whose buffers have been filled. Buffers that the kernel writes
    come last: code that claims memory distinguishes them by their addresses, and finds the layout of all other code.
    """
    regions: dict[str, Region] = {}
    written = _written_buffers(request, kernel)
    for argument in sorted(request.buffers, key=lambda buffer: (buffer.alias_of or buffer.name) in written):
        _place_buffer(request, arena, argument, variables, regions)
    for argument in request.buffers:
        for offset, target in argument.pointers:
            # The bytes of the record are an offset to the buffer.
            place = arena.data(regions[argument.name].address + offset, 8)
            address = int(place.view(np.uint64)[0]) + regions[target.name].address + target.pointer_offset
            place[:] = np.frombuffer(address.to_bytes(8, "little"), dtype=np.uint8)
    return regions


def _place_buffer(
    request: Request, arena: Arena, argument: Buffer, variables: dict[str, Region], regions: dict[str, Region]
) -> None:
    """Add the region of a buffer, which is allocated and filled unless it is there already."""
    if argument.variable in variables:
        regions[argument.name] = variables[argument.variable]
        return
    if argument.alias_of is not None and argument.alias_of in regions:
        regions[argument.name] = regions[argument.alias_of]
        return
    size = int(argument.data.size)
    if argument.resident:
        assert argument.host_address is not None
        regions[argument.name] = Region(argument.name, "buffer", argument.host_address, size, argument.element_size)
        return
    guard = max(request.guard_bytes, min(size, _MAX_GUARD))
    region = arena.allocate(
        argument.name, "buffer", size, guard=guard, offset=argument.offset, element=argument.element_size
    )
    if argument.freed:
        regions[argument.name] = region
        return
    known = argument.initialized or not request.checks.uninitialized
    # A store that misses its buffer by far must not change what an object describes.
    arena.fill(region, argument.data, initialised=known, read_only=is_texture(argument))
    if not known and argument.initialized_bytes is not None:
        arena.shadow(region.address, size)[argument.initialized_bytes] |= Shadow.INITIALISED
    if argument.padding is not None:
        arena.shadow(region.address, size)[argument.padding] |= Shadow.READ_ONLY
    regions[argument.name] = region


def _written_buffers(request: Request, kernel: CompiledKernel) -> frozenset[str]:
    """Return the buffers that the kernel writes, by the first of those that alias; none if it may write any."""
    if kernel.stores.elsewhere:
        return frozenset()
    return frozenset(
        argument.alias_of or argument.name
        for index, argument in enumerate(request.arguments)
        if isinstance(argument, Buffer) and (index, 0) in kernel.stores.pointers
    )


def windows_of_buffers(
    request: Request, kernel: CompiledKernel, claims: BlockClaims
) -> tuple[tuple[str, Window], ...] | None:
    """Return the buffers of each kind that code which claims memory writes, in order; None if the kinds alternate."""
    of_parameters = dict(claims.parameters)
    windows = tuple(
        (argument.name, of_parameters[parameter])
        for parameter, argument in zip(kernel.program.params, request.arguments, strict=False)
        if parameter in of_parameters
    )
    kinds = [window for window, _ in groupby(window for _, window in windows)]
    return windows if len(kinds) == len(set(kinds)) else None


def store_windows(
    arena: Arena, launch: Record, buffers: Mapping[str, Region], windows: tuple[tuple[str, Window], ...]
) -> None:
    """Store which memory accesses of each kind may touch, once the buffers are placed."""
    regions: dict[Window, list[Region]] = {}
    for name, window in windows:
        regions.setdefault(window, []).append(buffers[name])
    first = min((one.address for group in regions.values() for one in group), default=arena.address + arena.size)
    # Guard zones are unaddressable: half of one keeps what lies near the edge of a window inside it.
    edge = REDZONE // 2
    bounds = {Window.UNCLAIMED: (arena.address, first - edge)}
    for window, group in regions.items():
        bounds[window] = (group[0].address - edge, group[-1].address + group[-1].size + edge)
    for window, (low, high) in bounds.items():
        field = LaunchRecord.CLAIM_WINDOWS.element(2 * window - 2)
        launch.set(field, low)
        launch.set(field.element(1), high - low)


def place_parameters(request: Request, kernel: CompiledKernel, arena: Arena, buffers: dict[str, Region]) -> Region:
    """Allocate and fill the parameter block.

    Raises
    ------
    ValueError
        If the arguments do not fit the kernel's parameters in number or size.
    """
    slots = list(kernel.program.params.values())
    if len(slots) != len(request.arguments):
        raise ValueError(f"{len(request.arguments)} arguments for {len(slots)} parameters of {request.entry}")
    region = arena.allocate("parameters", "param", max(kernel.program.param_bytes, 8))
    image = np.zeros(region.size, dtype=np.uint8)
    addresses = {name: placed.address for name, placed in buffers.items()}
    for slot, argument in zip(slots, request.arguments, strict=True):
        raw = parameter_bytes(argument, addresses)
        if len(raw) > slot.size:
            raise ValueError(f"argument `{argument.name}` has {len(raw)} bytes, its parameter {slot.size}")
        image[slot.offset : slot.offset + len(raw)] = np.frombuffer(raw, dtype=np.uint8)
    arena.fill(region, image, read_only=True)
    return region


def readable_buffers(request: Request, arena: Arena, buffers: dict[str, Region]) -> Record:
    """Return the table of :class:`ReadableBuffer`, one entry per argument.

    Generated code loads from a buffer in it without testing shadow bytes, in whole vectors: the buffer must be
    initialised, large enough for a warp's access, and aligned. Other arguments have an entry that no address is in.
    """
    count = max(len(request.arguments), 1)
    table = arena.record("readable buffers", ReadableBuffer.SIZE * count)
    rows = table.table64(count * ReadableBuffer.SIZE // 8).reshape(count, -1)
    whole: dict[str, bool] = {}
    for index, argument in enumerate(request.arguments):
        address, size = _NO_BUFFER, MAX_ACCESS_BYTES
        if isinstance(argument, Buffer):
            initialised = argument.initialized or not request.checks.uninitialized
            whole[argument.name] = whole.get(argument.alias_of or "", initialised)
            region = buffers[argument.name]
            if whole[argument.name] and region.size >= MAX_ACCESS_BYTES and region.address % 32 == 0:
                address, size = region.address, region.size
        rows[index, ReadableBuffer.ADDRESS >> 3], rows[index, ReadableBuffer.BYTES >> 3] = address, size
    return table


def place_variables(
    request: Request, kernel: CompiledKernel, arena: Arena, symbols: Record, launch: Record
) -> dict[str, Region]:
    """Allocate and fill module variables; constants first, so that ``isspacep.const`` is one range comparison."""
    given = {buffer.variable: buffer for buffer in request.buffers if buffer.variable is not None}
    regions: dict[str, Region] = {}
    variables = sorted(kernel.program.variables.values(), key=lambda v: v.space != "const")
    for variable in variables:
        size = max(variable.size, 1)
        there = given.get(variable.name)
        if there is not None and there.resident and there.host_address is not None:
            region = Region(variable.name, "variable", there.host_address, size)
        else:
            region = arena.allocate(variable.name, "variable", size, alignment=max(variable.alignment, 256))
            content = np.zeros(size, dtype=np.uint8)
            if there is not None:
                content = there.data
            elif variable.init is not None:
                content[: len(variable.init)] = np.frombuffer(variable.init, dtype=np.uint8)
            arena.fill(region, content, read_only=variable.space == "const")
        regions[variable.name] = region
        symbols.table64(len(kernel.symbol_indices))[kernel.symbol_indices[variable.name]] = region.address
    constants = [regions[v.name] for v in variables if v.space == "const"]
    if constants:
        low = min(one.address for one in constants)
        launch.set(LaunchRecord.CONST_LOW, low)
        launch.set(LaunchRecord.CONST_SIZE, max(one.address + one.size for one in constants) - low)
    for variable in variables:
        for offset, name, addend in variable.relocations:
            target = regions.get(name)
            address = target.address if target is not None else kernel.program.function_address(name)
            there = given.get(variable.name)
            in_place = there is not None and there.resident
            place = (
                there.data[offset:][:8]
                if there and in_place
                else arena.data(regions[variable.name].address + offset, 8)
            )
            # What a caller gives has the addresses of variables, but not those of functions, which only we know.
            if address is not None and not (variable.name in given and place.any()):
                place[:] = np.frombuffer((address + addend).to_bytes(8, "little"), dtype=np.uint8)
    return regions

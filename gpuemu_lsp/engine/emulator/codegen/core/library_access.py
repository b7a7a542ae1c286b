"""Accesses executed by the device library: addresses and values are passed in the scratch space of the warp's context.

Three uses: the fallback of an access whose check has failed, which reports faults lane by lane; strong and atomic
accesses, which the race detector orders lane by lane; and baseline code, since a call compiles faster than a check.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RACE_SHIFT, SPACE_SHIFT, SPACES, STORE_FLAG, WINDOW_SHIFT
from gpuemu_lsp.engine.emulator.abi.field_access import store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import REGISTER_BYTES, Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import (
    LoadStore,
    address_scalar,
    destination,
    host_vector,
    part_mask,
    readable_parameter,
    shared_window,
)
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import race_flags
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Address, Operand, Register


def access_lane_by_lane(e: Emitter, access: LoadStore) -> None:
    """Have the device library execute an access of any form."""
    parts = range(e.parts)
    for item, column in zip(access.items, call_library(e, access, parts), strict=False):
        for part, value in enumerate(column):
            write_loaded(e, access, item, parts if len(column) == 1 else [part], value)


def access_row(e: Emitter, access: LoadStore) -> None:
    """Have the device library execute a contiguous access of one element per lane."""
    scope = e.snapshot()
    lanes = e.active_mask()
    _store_values(e, access, range(e.parts))
    # One call for the warp, or one for each part if every part has a base of its own.
    rows = [[part] for part in range(e.parts)] if access.shape.per_part else [range(e.parts)]
    buffer = readable_parameter(e, access)
    loaded = []
    for parts in rows:
        row_lanes = e.builder.and_(lanes, i32(part_mask(e, parts))) if len(rows) > 1 else lanes
        start = address_scalar(e, Address(access.address.base, 0), parts[0])
        if parts[0]:
            # The library counts from lane 0 of the warp; that this address may lie anywhere does not matter, as it
            # only accesses active lanes.
            start = e.builder.sub(start, i64(parts[0] * e.lanes * access.size))
        arguments = [e.context, i32(e.site), row_lanes, i32(access.size), i32(_unused(e, access))]
        arguments += [i32(_flags(e, access)), start, i64(access.address.offset), i64(_spare_bits(e, access))]
        name = "store_row" if access.store else "load_row"
        t.call_address(e.builder, DEVICE_LIBRARY.address(name), t.VOID, [*arguments, i32(buffer)])
        if not access.store:
            # Read before the next call, which uses the same rows.
            loaded += [(part, _loaded_value(e, access, 0, part)) for part in parts]
    # Registers are written last: the address register may be the destination.
    e.restore(scope)
    for part, value in loaded:
        write_loaded(e, access, access.items[0], [part], value)


def call_library(e: Emitter, access: LoadStore, parts: Sequence[int]) -> list[list[Value]]:
    """Have the device library execute an access; return one value per element and part.

    An element's value is a scalar, of the first active lane, if one address serves the warp (or each part).
    """
    b = e.builder
    scope = e.snapshot()
    lanes = e.active_mask()
    store_addresses(e, access, parts)
    _store_values(e, access, parts)
    count, unused, flags = len(access.items), _unused(e, access), _flags(e, access)
    arguments = [e.context, i32(e.site), lanes, i32(access.size), i32(count), i32(unused), i32(flags)]
    t.call_address(b, DEVICE_LIBRARY.address("store" if access.store else "load"), t.VOID, arguments)
    e.restore(scope)
    if access.store:
        return []
    if access.shape.part_uniform and access.space != "local":
        return _first_active_values(e, access, lanes)
    return [[_loaded_value(e, access, index, part) for part in parts] for index in range(len(access.items))]


def write_loaded(e: Emitter, access: LoadStore, item: Operand, parts: Sequence[int], value: Value) -> None:
    """Write the loaded value of one element, valid in ``parts``, to its register."""
    name = destination(item)
    if name == "_":
        return
    # Not the shape of the access, but that of the register, which another instruction may have made more general.
    shape = e.unit.divergence.shapes[name]
    if shape.varying or shape.per_part:
        for part in parts:
            e.write(name, part, value, access.type)
    else:
        e.write(name, 0, value, access.type)


def _first_active_values(e: Emitter, access: LoadStore, lanes: Value) -> list[list[Value]]:
    """Return one scalar per address: what the library has loaded for its lowest active lane.

    The library fills the rows of active lanes only, and each of these holds the same value.
    """
    b = e.builder
    columns: list[list[Value]] = [[] for _ in access.items]
    for part in range(e.parts if access.shape.per_part else 1):
        part_lanes = b.and_(lanes, i32(part_mask(e, [part]))) if access.shape.per_part else lanes
        lane = b.zext(t.intrinsic(b, "llvm.cttz.i32", I32, [part_lanes, ir.Constant(I1, 0)]), I64)
        # Without an active lane cttz gives 32, which would lie behind the row.
        position = b.add(b.mul(b.and_(lane, i64(31)), i64(access.size)), i64(Warp.VALUES))
        for index, column in enumerate(columns):
            integer = ir.IntType(access.size * 8)
            column.append(t.load(b, e.context, b.add(position, i64(index * REGISTER_BYTES)), integer, align=1))
    return columns


def store_addresses(e: Emitter, access: LoadStore, parts: Sequence[int]) -> None:
    """Write the host address of every lane to the scratch space; affine ones by a call, which is shorter code."""
    b = e.builder
    if access.shape.varying or access.space == "local":
        for part in parts:
            host = host_vector(e, access.address, access.space, part)
            store_lanes(b, host, e.context, Warp.ADDRESSES.element(part * e.lanes))
        return
    window = shared_window(e) if access.space == "shared" else i64(0)
    # The register alone: a 32-bit address wraps before the constant offset is added.
    plain = Address(access.address.base, 0)
    base_parts = parts if access.shape.per_part else [0]
    for part in base_parts:
        start = address_scalar(e, plain, part)
        count = e.lanes if access.shape.per_part else e.lanes * e.parts
        arguments = [e.context, i32(part * e.lanes), i32(count), start, i64(access.shape.step), window]
        arguments += [i64(access.address.offset), i64(_spare_bits(e, access))]
        t.call_address(b, DEVICE_LIBRARY.address("affine_addresses"), t.VOID, arguments)


def _store_values(e: Emitter, access: LoadStore, parts: Sequence[int]) -> None:
    """Write the values of a store to the scratch space."""
    for index, item in enumerate(access.items if access.store else ()):
        for part in parts:
            # As bits: the library moves values of a size, whatever their type.
            value = e.vector_operand(item, f"b{access.size * 8}", part)
            position = Warp.VALUES + index * REGISTER_BYTES + part * e.lanes * access.size
            t.store(e.builder, value, e.context, position, align=1)


def _loaded_value(e: Emitter, access: LoadStore, index: int, part: int) -> Value:
    """Return what the library has loaded for one element of the lanes of a part."""
    row = ir.VectorType(ir.IntType(access.size * 8), e.lanes)
    position = Warp.VALUES + index * REGISTER_BYTES + part * e.lanes * access.size
    return t.load(e.builder, e.context, position, row, align=1)


def _flags(e: Emitter, access: LoadStore) -> int:
    """Return the :mod:`~gpuemu_lsp.engine.emulator.abi.access_flags` of an access."""
    flags = SPACES[access.space] << SPACE_SHIFT | (STORE_FLAG if access.store else 0) | window_flag(e, access.space)
    return flags | race_flags(e, access.instruction) << RACE_SHIFT


def window_flag(e: Emitter, space: str) -> int:
    """Return the access flags of the global memory that the current access may touch."""
    return 0 if space in ("shared", "local") else e.unit.claims.window(e.site) << WINDOW_SHIFT


def _spare_bits(e: Emitter, access: LoadStore) -> int:
    """Return the number of upper bits that an address does not have before its constant offset is added."""
    base = access.address.base
    narrow = isinstance(base, Register) and e.register_type(base.name) == I32
    return 32 if narrow else 0


def _unused(e: Emitter, access: LoadStore) -> int:
    """Return a bit for each loaded element that is never read.

    Compilers merge neighbouring loads into wide ones; uninitialised bytes that only come along are not reported.
    In the copy of a structure they are its padding, known from ``used_bytes_mask``.
    """
    if access.store:
        return 0
    result, used, element = 0, access.instruction.used_bytes, (1 << access.size) - 1
    for index, item in enumerate(access.items):
        padding = used is not None and not used >> index * access.size & element
        if padding or destination(item) not in e.used:
            result |= 1 << index
    return result

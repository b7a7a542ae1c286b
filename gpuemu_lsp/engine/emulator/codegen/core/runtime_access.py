"""Accesses that the runtime does: addresses and values go through the scratch space of the warp's context.

Calls are made into machine code faster than checks: code that is not optimised leaves to the runtime what it can.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import RACE_SHIFT, SPACE_SHIFT, SPACES, STORE_FLAG
from gpuemu_lsp.engine.emulator.abi.field_access import store_lanes
from gpuemu_lsp.engine.emulator.abi.structs import REGISTER_BYTES, Warp
from gpuemu_lsp.engine.emulator.codegen.core.addresses import (
    Access,
    address_scalar,
    host_vector,
    item_name,
    lane_bits,
    shared_window,
    whole_buffer,
)
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.codegen.core.race_calls import race_flags
from gpuemu_lsp.engine.emulator.devicelib.library import DEVICE_LIBRARY
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32, i64
from gpuemu_lsp.engine.ptx.model import Address, Operand, Register


def lane_by_lane(e: Emitter, access: Access) -> None:
    """Have the runtime do an access, whatever its form."""
    parts = range(e.parts)
    for item, column in zip(access.items, call(e, access, parts), strict=False):
        for part, value in enumerate(column):
            deliver(e, access, item, parts if len(column) == 1 else [part], value)


def row(e: Emitter, access: Access) -> None:
    """Have the runtime do an access of neighbouring lanes, one element each: a call is made faster than a check."""
    known = e.snapshot()
    lanes = e.active_mask()
    _put_values(e, access, range(e.parts))
    pieces = [[part] for part in range(e.parts)] if access.shape.per_part else [range(e.parts)]
    buffer = whole_buffer(e, access)
    loaded = []
    for parts in pieces:
        mine = e.builder.and_(lanes, i32(lane_bits(e, parts))) if len(pieces) > 1 else lanes
        start = address_scalar(e, Address(access.address.base, 0), parts[0], first_lane=False)
        if parts[0]:  # the runtime counts from lane 0 of the warp, wherever that would be
            start = e.builder.sub(start, i64(parts[0] * e.lanes * access.size))
        arguments = [e.context, i32(e.site), mine, i32(access.size), i32(_unused(e, access)), i32(_flags(e, access))]
        arguments += [start, i64(access.address.offset), i64(_address_bits(e, access)), i32(buffer)]
        t.call_address(
            e.builder, DEVICE_LIBRARY.address("store_row" if access.store else "load_row"), t.VOID, arguments
        )
        if not access.store:
            loaded += [(part, _value(e, access, 0, part)) for part in parts]
    e.restore(known)
    for part, value in loaded:
        deliver(e, access, access.items[0], [part], value)


def call(e: Emitter, access: Access, parts: Sequence[int]) -> list[list[Value]]:
    """Have the runtime do the access; return one value per (item, part), scalars where all lanes use one address."""
    b = e.builder
    known = e.snapshot()
    lanes = e.active_mask()
    put_addresses(e, access, parts)
    _put_values(e, access, parts)
    arguments = [
        e.context,
        i32(e.site),
        lanes,
        i32(access.size),
        i32(len(access.items)),
        i32(_unused(e, access)),
        i32(_flags(e, access)),
    ]
    t.call_address(b, DEVICE_LIBRARY.address("store" if access.store else "load"), t.VOID, arguments)
    e.restore(known)
    if access.store:
        return []
    if access.shape.part_uniform and access.space != "local":
        return _first_lanes(e, access, lanes)
    return [[_value(e, access, index, part) for part in parts] for index in range(len(access.items))]


def deliver(e: Emitter, access: Access, item: Operand, parts: Sequence[int], value: Value) -> None:
    """Write what an access has loaded for one element of some parts to its register."""
    name = item_name(item)
    if name == "_":
        return
    shape = e.unit.divergence.shapes[name]
    if shape.varying or shape.per_part:
        for part in parts:
            e.write(name, part, value, access.type)
    else:
        e.write(name, 0, value, access.type)


def _first_lanes(e: Emitter, access: Access, lanes: Value) -> list[list[Value]]:
    """Return, of what the runtime loaded, one scalar per address: that of the lowest active lane."""
    b = e.builder
    columns: list[list[Value]] = [[] for _ in access.items]
    for part in range(e.parts if access.shape.per_part else 1):
        mine = b.and_(lanes, i32(lane_bits(e, [part]))) if access.shape.per_part else lanes
        lane = b.zext(t.intrinsic(b, "llvm.cttz.i32", I32, [mine, ir.Constant(I1, 0)]), I64)
        place = b.add(b.mul(b.and_(lane, i64(31)), i64(access.size)), i64(Warp.VALUES))
        for index, column in enumerate(columns):
            integer = ir.IntType(access.size * 8)
            column.append(t.load(b, e.context, b.add(place, i64(index * REGISTER_BYTES)), integer, align=1))
    return columns


def put_addresses(e: Emitter, access: Access, parts: Sequence[int]) -> None:
    """Write the host address of every lane to the scratch space, out of line where a base and a step say it all."""
    b = e.builder
    if access.shape.varying or access.space == "local":
        for part in parts:
            host = host_vector(e, access.address, access.space, part)
            store_lanes(b, host, e.context, Warp.ADDRESSES.element(part * e.lanes))
        return
    window = shared_window(e) if access.space == "shared" else i64(0)
    # A 32-bit address wraps before the constant offset is added to it.
    plain = Address(access.address.base, 0)
    pieces = parts if access.shape.per_part else [0]
    for part in pieces:
        start = address_scalar(e, plain, part, first_lane=False)
        count = e.lanes if access.shape.per_part else e.lanes * e.parts
        arguments = [e.context, i32(part * e.lanes), i32(count), start, i64(access.shape.step), window]
        arguments += [i64(access.address.offset), i64(_address_bits(e, access))]
        t.call_address(b, DEVICE_LIBRARY.address("affine_addresses"), t.VOID, arguments)


def _put_values(e: Emitter, access: Access, parts: Sequence[int]) -> None:
    """Write what a store stores to the scratch space."""
    for index, item in enumerate(access.items if access.store else ()):
        for part in parts:
            value = e.vector_operand(item, f"b{access.size * 8}", part)
            place = Warp.VALUES + index * REGISTER_BYTES + part * e.lanes * access.size
            t.store(e.builder, value, e.context, place, align=1)


def _value(e: Emitter, access: Access, index: int, part: int) -> Value:
    """Return what the runtime has loaded for one element of the lanes of a part."""
    row = ir.VectorType(ir.IntType(access.size * 8), e.lanes)
    place = Warp.VALUES + index * REGISTER_BYTES + part * e.lanes * access.size
    return t.load(e.builder, e.context, place, row, align=1)


def _flags(e: Emitter, access: Access) -> int:
    """Return what the runtime must know of an access."""
    flags = SPACES[access.space] << SPACE_SHIFT | (STORE_FLAG if access.store else 0)
    return flags | race_flags(e, access.instruction) << RACE_SHIFT


def _address_bits(e: Emitter, access: Access) -> int:
    """Return the bits an address has before its constant offset is added: one in a 32-bit register wraps."""
    base = access.address.base
    narrow = isinstance(base, Register) and e.register_type(base.name) == I32
    return 0xFFFFFFFF if narrow else -1


def _unused(e: Emitter, access: Access) -> int:
    """Return a bit per element that nobody reads: bytes that are loaded only because a vector load is wide."""
    result = 0
    for index, item in enumerate(access.items):
        if not access.store and item_name(item) not in e.used:
            result |= 1 << index
    return result

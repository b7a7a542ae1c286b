"""Access to the record of a texture or surface from the device library, and addresses of texels."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_field
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I32, I64, Value, i32, i64
from gpuemu_lsp.engine.texture import MAGIC, RECORD, AddressMode

_OFFSETS = {name: int(field[1]) for name, field in (RECORD.fields or {}).items()}
_EXTENTS = ("width", "height", "depth")


def valid_object(b: ir.IRBuilder, launch: Value, handle: Value) -> Value:
    """Return whether 64 bits are the address of a record."""
    offset = b.sub(handle, load_field(b, launch, LaunchRecord.ARENA))
    size = load_field(b, launch, LaunchRecord.ARENA_SIZE)
    near = b.icmp_unsigned("<", b.add(offset, i64(RECORD.itemsize)), size)
    # The sum may wrap, the offset then is larger than the arena.
    near = b.and_(near, b.icmp_unsigned("<", offset, size))
    before, test, end = b.block, b.append_basic_block("object"), b.append_basic_block("object.end")
    b.cbranch(near, test, end)
    b.position_at_end(test)
    found = b.icmp_unsigned("==", t.load(b, handle, 0, I64, align=1), i64(MAGIC))
    b.branch(end)
    b.position_at_end(end)
    result = b.phi(I1)
    result.add_incoming(ir.Constant(I1, 0), before)
    result.add_incoming(found, test)
    return result


def int_field(b: ir.IRBuilder, record: Value, name: str, index: int = 0) -> Value:
    """Load a 32-bit field of a record, or an element of an array."""
    return t.load(b, record, _OFFSETS[name] + 4 * index, I32, align=4)


def real_field(b: ir.IRBuilder, record: Value, name: str) -> Value:
    """Load a float of a record."""
    return t.load(b, record, _OFFSETS[name], ir.FloatType(), align=4)


def wide_field(b: ir.IRBuilder, record: Value, name: str) -> Value:
    """Load a 64-bit field of a record."""
    return t.load(b, record, _OFFSETS[name], I64, align=8)


def extent(b: ir.IRBuilder, record: Value, level: Value, axis: int) -> Value:
    """Return the size of a level along an axis; layers are not halved, and are the only depth of textures with levels.

    The levels of a three-dimensional texture are not distinguished from those of layers: they keep its depth.
    """
    size = int_field(b, record, _EXTENTS[axis])
    if axis == 2:
        return size
    halved = b.lshr(size, level)
    return b.select(b.icmp_unsigned("==", halved, i32(0)), i32(1), halved)


def texel_bytes(b: ir.IRBuilder, record: Value) -> Value:
    """Return the size of a texel."""
    return b.mul(int_field(b, record, "channel_bytes"), int_field(b, record, "channels"))


def texel_address(b: ir.IRBuilder, record: Value, level: Value, x: Value, y: Value, z: Value) -> Value:
    """Return the address of a texel, an i64."""
    size = b.zext(texel_bytes(b, record), I64)
    first = b.icmp_unsigned("==", level, i32(0))
    width, height = (b.zext(extent(b, record, level, axis), I64) for axis in range(2))
    row = b.select(first, b.zext(int_field(b, record, "row_bytes"), I64), b.mul(width, size))
    slice_ = b.select(first, wide_field(b, record, "slice_bytes"), b.mul(row, height))
    place = b.add(i64(_OFFSETS["level_offsets"]), b.shl(b.zext(level, I64), i64(2)))
    start = b.add(wide_field(b, record, "address"), b.zext(t.load(b, record, place, I32, align=4), I64))
    start = b.add(start, b.mul(b.zext(z, I64), slice_))
    start = b.add(start, b.mul(b.zext(y, I64), row))
    return b.add(start, b.mul(b.zext(x, I64), size))


def addressed(
    b: ir.IRBuilder, record: Value, axis: int, index: Value, size: Value, normalised: Value
) -> tuple[Value, Value]:
    """Return the texel that an index stands for, and whether it is inside of the texture.

    Wrapping and mirroring are for normalised coordinates; others are clamped instead (Programming Guide).
    """
    mode = int_field(b, record, "addressing", axis)

    def is_mode(one: AddressMode) -> Value:
        return b.icmp_unsigned("==", mode, i32(one))

    last = b.sub(size, i32(1))
    negative = b.icmp_signed("<", index, i32(0))
    clamped = b.select(negative, i32(0), index)
    clamped = b.select(b.icmp_signed(">", clamped, last), last, clamped)

    def modulo(number: Value) -> Value:
        rest = b.srem(index, number)
        return b.select(b.icmp_signed("<", rest, i32(0)), b.add(rest, number), rest)

    wrapped = modulo(size)
    twice = b.shl(size, i32(1))
    there = modulo(twice)
    mirrored = b.select(b.icmp_signed(">=", there, size), b.sub(b.sub(twice, i32(1)), there), there)
    result = b.select(b.and_(normalised, is_mode(AddressMode.WRAP)), wrapped, clamped)
    result = b.select(b.and_(normalised, is_mode(AddressMode.MIRROR)), mirrored, result)
    within = b.icmp_unsigned("<", index, size)
    return result, b.or_(b.not_(is_mode(AddressMode.BORDER)), within)


def lane_operand(b: ir.IRBuilder, scratch: Value, row: Value, lane: Value) -> Value:
    """Load the 32 bits of a lane in a row of the launch's scratch space."""
    offset = b.add(b.shl(b.zext(row, I64), i64(7)), b.shl(b.zext(lane, I64), i64(2)))
    return t.load(b, scratch, offset, I32, align=4)

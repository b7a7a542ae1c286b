"""Reads of textures (PTX ISA section 9.7.10) as functions of the device library.

The formulas are those of the CUDA C++ Programming Guide, "Texture Fetching": the texel whose index is the floor of the
coordinate, or the sum of the 2, 4 or 8 nearest ones with weights in steps of 1/256. Each texel is an access of its own
to the memory behind the texture, so that one that was never written is reported where it has a weight.

Operands and results are in the launch's scratch space, a row of 32 lanes each: the texture objects, up to four
coordinates (the layer first), then the level of detail, or four rows for each of two derivatives.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_pointer
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.abi.texture_forms import Geometry, LevelOperand
from gpuemu_lsp.engine.emulator.devicelib.texture_records import (
    addressed,
    extent,
    int_field,
    lane_operand,
    real_field,
    texel_address,
    valid_object,
)
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I16, I32, I64, POINTER, VOID, Value, i32, i64
from gpuemu_lsp.engine.texture import AddressMode, ChannelKind

NAMES: Final = ("texture",)

F32, HALF = ir.FloatType(), ir.HalfType()
LEVEL_ROW: Final = 4
"""Row of the level of detail, or of the first derivative; the second one is four rows further."""

_STEPS = 256.0
_GATHER_ORDER = (3, 2, 0, 1)
"""Place in the result of ``tld4`` of the texel at each corner: (0, 1), (1, 1), (1, 0), (0, 0)."""


def add_textures(module: ir.Module, check: Value) -> None:
    """Add the functions of :data:`NAMES`, given ``check_access`` of the library."""
    texel = _add_texel(module, check)
    _add_texture(module, texel, _add_sample(module, texel))


def _real(value: float) -> Value:
    return ir.Constant(F32, value)


def _is(b: ir.IRBuilder, value: Value, number: int) -> Value:
    return b.icmp_unsigned("==", value, i32(number))


def _floor(b: ir.IRBuilder, value: Value) -> Value:
    return t.intrinsic(b, "llvm.floor.f32", F32, [value])


def _to_index(b: ir.IRBuilder, value: Value) -> Value:
    """Return a whole number as an integer; what is far from any texel, or no number, is far outside."""
    # maxnum of a NaN and a number is the number.
    limited = t.intrinsic(b, "llvm.maxnum.f32", F32, [value, _real(-1e9)])
    return b.fptosi(t.intrinsic(b, "llvm.minnum.f32", F32, [limited, _real(1e9)]), I32)


def _step(b: ir.IRBuilder, fraction: Value) -> Value:
    """Return a fraction as a 9-bit fixed-point number with 8 fractional bits: a multiple of 1/256 from 0 to 1."""
    steps = _floor(b, b.fadd(b.fmul(fraction, _real(_STEPS)), _real(0.5)))
    return b.fdiv(steps, _real(_STEPS))


def _returns_floats(b: ir.IRBuilder, record: Value) -> Value:
    is_float = _is(b, int_field(b, record, "kind"), ChannelKind.FLOAT)
    return b.or_(is_float, b.icmp_unsigned("!=", int_field(b, record, "as_float"), i32(0)))


def _add_texel(module: ir.Module, check: Value) -> Value:
    """Add ``texture_texel(ctx, site, lane, record, level, x, y, z, inside, out)``: the four values of one texel.

    One that is not ``inside`` is the border's. What a texel has no channel for is 0, or 1 for the last.
    """
    types = [POINTER, I32, I32, I64, I32, I32, I32, I32, I1, POINTER]
    function, b = t.new_function(module, "texture_texel", VOID, types)
    ctx, site, lane, record, level, x, y, z, inside, out = function.args
    slot = b.alloca(I32)
    slot.type = POINTER
    with b.if_else(inside) as (then, otherwise):
        with otherwise:
            for channel in range(4):
                t.store(b, int_field(b, record, "border", channel), out, 4 * channel)
        with then:
            size, count = int_field(b, record, "channel_bytes"), int_field(b, record, "channels")
            start = texel_address(b, record, level, x, y, z)
            readable = b.call(check, [ctx, site, lane, start, b.mul(size, count), size, i32(0)])
            floats = _returns_floats(b, record)
            for channel in range(4):
                absent = b.select(floats, i32(0x3F800000), i32(1)) if channel == 3 else i32(0)
                b.store(absent, slot)
                with b.if_then(b.and_(readable, b.icmp_unsigned("<", i32(channel), count))):
                    place = b.add(start, b.zext(b.mul(size, i32(channel)), I64))
                    _load_channel(b, record, place, size, floats, slot)
                t.store(b, b.load(slot, typ=I32), out, 4 * channel)
    b.ret_void()
    return function


def _load_channel(b: ir.IRBuilder, record: Value, place: Value, size: Value, floats: Value, slot: Value) -> None:
    """Load one value of a texel, convert it as the texture's read mode says, and store its 32 bits."""
    kind = int_field(b, record, "kind")
    signed = _is(b, kind, ChannelKind.SIGNED)
    with b.if_then(_is(b, size, 4)):
        b.store(t.load(b, place, 0, I32, align=1), slot)
    for width in (I8, I16):
        with b.if_then(_is(b, size, width.width // 8)):
            raw = t.load(b, place, 0, width, align=1)
            high, low = b.zext(raw, I32), b.sext(raw, I32)
            bits = b.select(signed, low, high)
            # Programming Guide, "Texture Object API": 0xff is read as 1, and -128 as -1, as -127 is.
            positive = b.fdiv(b.uitofp(high, F32), _real(float((1 << width.width) - 1)))
            balanced = b.fdiv(b.sitofp(low, F32), _real(float((1 << width.width - 1) - 1)))
            balanced = t.intrinsic(b, "llvm.maxnum.f32", F32, [balanced, _real(-1.0)])
            number = b.select(signed, balanced, positive)
            if width is I16:
                half = b.fpext(b.bitcast(raw, HALF), F32)
                number = b.select(_is(b, kind, ChannelKind.FLOAT), half, number)
            b.store(b.select(floats, b.bitcast(number, I32), bits), slot)


def _scaled(b: ir.IRBuilder, record: Value, axis: int, value: Value, size: Value, normalised: Value) -> Value:
    """Return a coordinate in texels; wrapped and mirrored ones are brought into the texture first."""
    mode = int_field(b, record, "addressing", axis)
    whole = _floor(b, value)
    fraction = b.fsub(value, whole)
    odd = _is(b, b.and_(_to_index(b, whole), i32(1)), 1)
    mirrored = b.select(odd, b.fsub(_real(1.0), fraction), fraction)
    inner = b.select(_is(b, mode, AddressMode.MIRROR), mirrored, value)
    inner = b.select(_is(b, mode, AddressMode.WRAP), fraction, inner)
    return b.select(normalised, b.fmul(inner, b.uitofp(size, F32)), value)


def _add_sample(module: ir.Module, texel: Value) -> Value:
    """Add ``texture_sample(ctx, site, lane, record, level, x, y, z, axes, slice, gather, normalised, out)``.

    ``axes`` coordinates are used, ``slice`` is the third one of a layer. ``gather`` is the channel of ``tld4`` plus 1,
    or 0. ``normalised`` says that the coordinates are, whatever the texture says.
    """
    types = [POINTER, I32, I32, I64, I32, F32, F32, F32, I32, I32, I32, I1, POINTER]
    function, b = t.new_function(module, "texture_sample", VOID, types)
    ctx, site, lane, record, level, *rest = function.args
    values, (axes, layer, gather, normalised, out) = rest[:3], rest[3:]
    one = b.alloca(ir.ArrayType(I32, 4))
    one.type = POINTER
    normalised = b.or_(normalised, b.icmp_unsigned("!=", int_field(b, record, "normalised"), i32(0)))
    gathers = b.icmp_unsigned("!=", gather, i32(0))
    linear = b.and_(b.icmp_unsigned("!=", int_field(b, record, "linear"), i32(0)), _returns_floats(b, record))
    between = b.or_(linear, gathers)
    sizes, firsts, weights = [], [], []
    for axis, value in enumerate(values):
        used = b.icmp_unsigned("<", i32(axis), axes)
        size = extent(b, record, level, axis)
        place = _scaled(b, record, axis, value, size, normalised)
        moved = b.select(between, b.fsub(place, _real(0.5)), place)
        low = _floor(b, moved)
        unused = layer if axis == 2 else i32(0)
        firsts.append(b.select(used, _to_index(b, low), unused))
        weight = _step(b, b.fsub(moved, low))
        weights.append(b.select(b.and_(used, linear), weight, _real(0.0)))
        sizes.append(size)
    zero = i32(0)
    for channel in range(4):
        t.store(b, zero, out, 4 * channel)
    corners = b.select(between, b.shl(i32(1), axes), i32(1))
    before, loop, end = b.block, b.append_basic_block("corner"), b.append_basic_block("corners")
    b.branch(loop)
    b.position_at_end(loop)
    corner = b.phi(I32)
    corner.add_incoming(zero, before)
    factor, inside, places = _real(1.0), ir.Constant(I1, 1), []
    for axis, (first, weight, size) in enumerate(zip(firsts, weights, sizes, strict=True)):
        far = _is(b, b.and_(b.lshr(corner, i32(axis)), i32(1)), 1)
        factor = b.fmul(factor, b.select(far, weight, b.fsub(_real(1.0), weight)))
        index, within = addressed(b, record, axis, b.add(first, b.zext(far, I32)), size, normalised)
        used = b.icmp_unsigned("<", i32(axis), axes)
        places.append(b.select(used, index, first))
        inside = b.and_(inside, b.or_(b.not_(used), within))
    # A texel without a weight has no influence, nor need it exist.
    with b.if_then(b.or_(gathers, b.fcmp_ordered(">", factor, _real(0.0)))):
        b.call(texel, [ctx, site, lane, record, level, *places, inside, one])
        _accumulate(b, one, out, factor, corner, gather, linear)
    following = b.add(corner, i32(1))
    corner.add_incoming(following, b.block)
    b.cbranch(b.icmp_unsigned("<", following, corners), loop, end)
    b.position_at_end(end)
    b.ret_void()
    return function


def _accumulate(
    b: ir.IRBuilder, one: Value, out: Value, factor: Value, corner: Value, gather: Value, linear: Value
) -> None:
    """Add a texel to the result with its weight; take it as it is without filtering; or one channel of it."""
    gathers = b.icmp_unsigned("!=", gather, i32(0))
    with b.if_else(gathers) as (then, otherwise):
        with then:
            channel = b.and_(b.sub(gather, i32(1)), i32(3))
            value = t.load(b, one, b.zext(b.shl(channel, i32(2)), I64), I32)
            for number, place in enumerate(_GATHER_ORDER):
                with b.if_then(_is(b, corner, number)):
                    t.store(b, value, out, 4 * place)
        with otherwise:
            for channel in range(4):
                bits = t.load(b, one, 4 * channel, I32)
                sum_ = t.load(b, out, 4 * channel, F32)
                added = b.fadd(sum_, b.fmul(factor, b.bitcast(bits, F32)))
                t.store(b, b.select(linear, b.bitcast(added, I32), bits), out, 4 * channel)


def _cube(b: ir.IRBuilder, x: Value, y: Value, z: Value) -> tuple[Value, Value, Value]:
    """Return the side of a cubemap that a direction points to, and the coordinates there (Programming Guide)."""
    size = [t.intrinsic(b, "llvm.fabs.f32", F32, [value]) for value in (x, y, z)]
    along_x = b.and_(b.fcmp_ordered(">=", size[0], size[1]), b.fcmp_ordered(">=", size[0], size[2]))
    along_y = b.and_(b.not_(along_x), b.fcmp_ordered(">=", size[1], size[2]))
    minus = [b.fcmp_ordered("<", value, _real(0.0)) for value in (x, y, z)]

    def chosen(of_x: Value, of_y: Value, of_z: Value) -> Value:
        return b.select(along_x, of_x, b.select(along_y, of_y, of_z))

    negative = chosen(*minus)
    side = b.add(chosen(i32(0), i32(2), i32(4)), b.zext(negative, I32))
    s = chosen(b.select(negative, z, b.fneg(z)), x, b.select(negative, b.fneg(x), x))
    v = chosen(b.fneg(y), b.select(negative, b.fneg(z), z), b.fneg(y))
    major = chosen(*size)

    def coordinate(value: Value) -> Value:
        return b.fmul(b.fadd(b.fdiv(value, major), _real(1.0)), _real(0.5))

    return side, coordinate(s), coordinate(v)


def _level_of_detail(b: ir.IRBuilder, scratch: Value, lane: Value, form: Value, record: Value, axes: Value) -> Value:
    """Return the level of detail as a number, clamped to the levels that there are."""
    kind = b.and_(b.lshr(form, i32(5)), i32(3))
    given = b.bitcast(lane_operand(b, scratch, i32(LEVEL_ROW), lane), F32)
    normalised = b.icmp_unsigned("!=", int_field(b, record, "normalised"), i32(0))
    longest = _real(0.0)
    for row in (LEVEL_ROW, LEVEL_ROW + 4):
        square = _real(0.0)
        for axis in range(3):
            change = b.bitcast(lane_operand(b, scratch, i32(row + axis), lane), F32)
            size = b.uitofp(extent(b, record, i32(0), axis), F32)
            change = b.fmul(change, b.select(normalised, size, _real(1.0)))
            used = b.icmp_unsigned("<", i32(axis), axes)
            square = b.fadd(square, b.select(used, b.fmul(change, change), _real(0.0)))
        longest = t.intrinsic(b, "llvm.maxnum.f32", F32, [longest, square])
    derived = b.fmul(t.intrinsic(b, "llvm.log2.f32", F32, [longest]), _real(0.5))
    level = b.select(_is(b, kind, LevelOperand.LEVEL), given, _real(0.0))
    level = b.select(_is(b, kind, LevelOperand.DERIVATIVES), derived, level)
    level = b.fadd(level, real_field(b, record, "level_bias"))
    last = b.uitofp(b.sub(int_field(b, record, "levels"), i32(1)), F32)
    for name, bounds in (("maxnum", ("level_least",)), ("minnum", ("level_most",))):
        for bound in bounds:
            level = t.intrinsic(b, f"llvm.{name}.f32", F32, [level, real_field(b, record, bound)])
    level = t.intrinsic(b, "llvm.maxnum.f32", F32, [level, _real(0.0)])
    return t.intrinsic(b, "llvm.minnum.f32", F32, [level, last])


def _add_texture(module: ir.Module, texel: Value, sample: Value) -> None:
    """Add ``texture(ctx, site, mask, form) -> i64``: what the lanes of a warp read.

    The low half of the result has the lanes whose operand is not a texture object, the high half those that read
    outside of a texture by whole coordinates, which gives zeros.
    """
    function, b = t.new_function(module, "texture", I64, [POINTER, I32, I32, I32])
    ctx, site, mask, form = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    out, second = (b.alloca(ir.ArrayType(I32, 4)) for _ in range(2))
    out.type = second.type = POINTER
    faults = b.alloca(I64)
    faults.type = POINTER
    b.store(i64(0), faults)
    scratch = b.gep(launch, [i64(LaunchRecord.TEXTURE_OPERANDS)], source_etype=I8)
    geometry = b.and_(form, i32(15))
    layered = _any_of(b, geometry, [one for one in Geometry if one.layered])
    axes = i32(3)
    for count in (1, 2):
        axes = b.select(_any_of(b, geometry, [one for one in Geometry if one.coordinates == count]), i32(count), axes)
    is_cube = _any_of(b, geometry, [Geometry.CUBE, Geometry.ACUBE])
    integers = b.icmp_unsigned("!=", b.and_(form, i32(16)), i32(0))
    gather = b.and_(b.lshr(form, i32(8)), i32(15))
    first = b.zext(layered, I32)

    def fault(lane: Value, shift: int) -> None:
        bit = b.shl(b.shl(i64(1), b.zext(lane, I64)), i64(shift))
        b.store(b.or_(b.load(faults, typ=I64), bit), faults)

    with t.for_lanes(b, mask) as lane:
        for channel in range(4):
            t.store(b, i32(0), out, 4 * channel)
        handle = t.load(b, launch, b.add(i64(LaunchRecord.TEXTURE_HANDLES), b.shl(b.zext(lane, I64), i64(3))), I64)
        with b.if_else(valid_object(b, launch, handle)) as (good, bad):
            with bad:
                fault(lane, 0)
            with good:
                rows = [lane_operand(b, scratch, b.add(first, i32(axis)), lane) for axis in range(3)]
                depth = extent(b, handle, i32(0), 2)
                sides = b.select(is_cube, i32(6), i32(1))
                layer = lane_operand(b, scratch, i32(0), lane)
                highest = b.sub(b.udiv(depth, sides), i32(1))
                layer = b.select(b.icmp_signed("<", layer, i32(0)), i32(0), layer)
                layer = b.select(b.icmp_signed(">", layer, highest), highest, layer)
                layer = b.mul(b.select(layered, layer, i32(0)), sides)
                with b.if_else(integers) as (whole, real):
                    with whole:
                        inside = ir.Constant(I1, 1)
                        places = []
                        for axis, value in enumerate(rows):
                            used = b.icmp_unsigned("<", i32(axis), axes)
                            within = b.icmp_unsigned("<", value, extent(b, handle, i32(0), axis))
                            inside = b.and_(inside, b.or_(b.not_(used), within))
                            places.append(b.select(used, value, layer if axis == 2 else i32(0)))
                        with b.if_else(inside) as (there, beyond):
                            with there:
                                b.call(texel, [ctx, site, lane, handle, i32(0), *places, inside, out])
                            with beyond:
                                fault(lane, 32)
                    with real:
                        values = [b.bitcast(value, F32) for value in rows]
                        side, s, v = _cube(b, *values)
                        x, y = b.select(is_cube, s, values[0]), b.select(is_cube, v, values[1])
                        layer = b.add(layer, b.select(is_cube, side, i32(0)))
                        used = b.select(is_cube, i32(2), axes)
                        detail = _level_of_detail(b, scratch, lane, form, handle, used)
                        _sample_levels(
                            b, sample, [ctx, site, lane, handle], detail, [x, y, values[2]],
                            [used, layer, gather, is_cube], (out, second),
                        )  # fmt: skip
        for channel in range(4):
            position = b.add(i64(LaunchRecord.TEXTURE_RESULTS + channel * 128), b.shl(b.zext(lane, I64), i64(2)))
            t.store(b, t.load(b, out, 4 * channel, I32), launch, position)
    b.ret(b.load(faults, typ=I64))


def _sample_levels(
    b: ir.IRBuilder,
    sample: Value,
    head: list[Value],
    detail: Value,
    coordinates: Sequence[Value],
    tail: Sequence[Value],
    results: tuple[Value, Value],
) -> None:
    """Read the nearest level, or, where levels are filtered too, the two around the level of detail."""
    record = head[-1]
    out, second = results
    between = b.icmp_unsigned("!=", int_field(b, record, "level_linear"), i32(0))
    between = b.and_(between, _returns_floats(b, record))
    nearest = _floor(b, b.fadd(detail, _real(0.5)))
    level = b.select(between, _floor(b, detail), nearest)
    part = b.select(between, _step(b, b.fsub(detail, level)), _real(0.0))
    number = _to_index(b, level)
    b.call(sample, [*head, number, *coordinates, *tail, out])
    with b.if_then(b.fcmp_ordered(">", part, _real(0.0))):
        b.call(sample, [*head, b.add(number, i32(1)), *coordinates, *tail, second])
        for channel in range(4):
            near, far = (t.load(b, one, 4 * channel, F32) for one in (out, second))
            mixed = b.fadd(b.fmul(near, b.fsub(_real(1.0), part)), b.fmul(far, part))
            t.store(b, mixed, out, 4 * channel)


def _any_of(b: ir.IRBuilder, value: Value, numbers: Sequence[int]) -> Value:
    result: Value = ir.Constant(I1, 0)
    for number in numbers:
        result = b.or_(result, _is(b, value, number))
    return result

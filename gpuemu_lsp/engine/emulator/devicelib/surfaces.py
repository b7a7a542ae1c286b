"""Addresses of surface accesses (PTX ISA section 9.7.11) as a function of the device library.

The accesses themselves are those of ``ld`` and ``st``, at these addresses.
"""

from __future__ import annotations

from typing import Final

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.field_access import load_pointer
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord, Warp
from gpuemu_lsp.engine.emulator.abi.texture_forms import Boundary, Geometry
from gpuemu_lsp.engine.emulator.devicelib.texture_records import (
    extent,
    lane_operand,
    texel_address,
    texel_bytes,
    valid_object,
)
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I1, I8, I32, I64, POINTER, Value, i32, i64

NAMES: Final = ("surface_addresses",)


def add_surfaces(module: ir.Module) -> None:
    """Add ``surface_addresses(ctx, mask, form) -> i64``: the host addresses of the lanes, in the scratch space.

    The low half of the result has the lanes that access memory, the high half those at fault: their operand is no
    surface object, or outside of the surface by the rule ``.trap``.
    """
    function, b = t.new_function(module, "surface_addresses", I64, [POINTER, I32, I32])
    ctx, mask, form = function.args
    launch = load_pointer(b, ctx, Warp.LAUNCH)
    scratch = b.gep(launch, [i64(LaunchRecord.TEXTURE_OPERANDS)], source_etype=I8)
    result = b.alloca(I64)
    result.type = POINTER
    b.store(i64(0), result)
    geometry, boundary = b.and_(form, i32(15)), b.and_(b.lshr(form, i32(4)), i32(15))
    size = b.lshr(form, i32(8))

    def any_of(*numbers: int) -> Value:
        found: Value = ir.Constant(I1, 0)
        for number in numbers:
            found = b.or_(found, b.icmp_unsigned("==", geometry, i32(number)))
        return found

    layered = any_of(Geometry.A1, Geometry.A2)
    first = b.zext(layered, I32)
    has_y, has_z = any_of(Geometry.D2, Geometry.D3, Geometry.A2), any_of(Geometry.D3)

    def is_boundary(one: Boundary) -> Value:
        return b.icmp_unsigned("==", boundary, i32(one))

    with t.for_lanes(b, mask) as lane:
        bit = b.shl(i64(1), b.zext(lane, I64))
        handle = t.load(b, launch, b.add(i64(LaunchRecord.TEXTURE_HANDLES), b.shl(b.zext(lane, I64), i64(3))), I64)
        with b.if_else(valid_object(b, launch, handle)) as (good, bad):
            with bad:
                b.store(b.or_(b.load(result, typ=I64), b.shl(bit, i64(32))), result)
            with good:
                x, y, z = (lane_operand(b, scratch, b.add(first, i32(axis)), lane) for axis in range(3))
                layer = lane_operand(b, scratch, i32(0), lane)
                y = b.select(has_y, y, i32(0))
                z = b.select(layered, layer, b.select(has_z, z, i32(0)))
                # The first coordinate is in bytes, whatever the texels are.
                width = b.mul(extent(b, handle, i32(0), 0), texel_bytes(b, handle))
                last = b.sub(width, size)
                limits = (last, *(b.sub(extent(b, handle, i32(0), axis), i32(1)) for axis in (1, 2)))
                inside: Value = ir.Constant(I1, 1)
                places = []
                for value, most in zip((x, y, z), limits, strict=True):
                    low, high = b.icmp_signed("<", value, i32(0)), b.icmp_signed(">", value, most)
                    inside = b.and_(inside, b.not_(b.or_(low, high)))
                    places.append(b.select(low, i32(0), b.select(high, most, value)))
                accesses = b.or_(inside, is_boundary(Boundary.CLAMP))
                fails = b.and_(b.not_(inside), is_boundary(Boundary.TRAP))
                start = texel_address(b, handle, i32(0), i32(0), places[1], places[2])
                address = b.add(start, b.sext(places[0], I64))
                t.store(b, address, ctx, b.add(i64(Warp.ADDRESSES), b.shl(b.zext(lane, I64), i64(3))))
                none = i64(0)
                found = b.or_(b.select(accesses, bit, none), b.select(fails, b.shl(bit, i64(32)), none))
                b.store(b.or_(b.load(result, typ=I64), found), result)
    b.ret(b.load(result, typ=I64))

"""The global memory that an access may touch: the arena, or in code that claims memory a part of it."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.access_flags import Window
from gpuemu_lsp.engine.emulator.abi.field_access import load_field
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I64, Value, i32, i64


def global_window(b: ir.IRBuilder, launch: Value, window: Value) -> tuple[Value, Value]:
    """Return start and size of a :class:`Window`, the lower two bits of an i32."""
    number = b.and_(window, i32(3))
    whole = b.icmp_unsigned("==", number, i32(Window.ARENA))
    # That of the arena is not in the table; what is loaded in its place is not used.
    entry = b.select(whole, i32(0), b.sub(number, i32(1)))
    place = b.add(i64(LaunchRecord.CLAIM_WINDOWS), b.shl(b.zext(entry, I64), i64(4)))
    start, size = t.load(b, launch, place, I64), t.load(b, launch, b.add(place, i64(8)), I64)
    return (
        b.select(whole, load_field(b, launch, LaunchRecord.ARENA), start),
        b.select(whole, load_field(b, launch, LaunchRecord.ARENA_SIZE), size),
    )

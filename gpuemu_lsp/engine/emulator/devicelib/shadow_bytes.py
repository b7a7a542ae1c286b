"""Loops over the shadow bytes of an access."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.memory import SHADOW_OFFSET, Shadow
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I8, I64, Value, i64, load, store


def shadow_bits(b: ir.IRBuilder, address: Value, size: Value) -> tuple[Value, Value]:
    """Return the conjunction and the disjunction of the shadow bytes of ``size`` bytes, an i64, not 0."""
    # Byte by byte, whatever the size and alignment: generated code has tested whole words before, and this loop only
    # runs where that has failed or does not apply.
    before = b.block
    loop, end = b.append_basic_block("shadow"), b.append_basic_block("shadow.end")
    b.branch(loop)
    b.position_at_end(loop)
    # Both are needed: an access must be addressable in every byte, and is refused if some byte is read-only.
    index, every, some = b.phi(I64), b.phi(I8), b.phi(I8)
    byte = load(b, b.add(address, i64(SHADOW_OFFSET)), index, I8)
    every_now, some_now = b.and_(every, byte), b.or_(some, byte)
    following = b.add(index, i64(1))
    for phi, first, then in (
        (index, i64(0), following),
        (every, ir.Constant(I8, 255), every_now),
        (some, ir.Constant(I8, 0), some_now),
    ):
        phi.add_incoming(first, before)
        phi.add_incoming(then, loop)
    b.cbranch(b.icmp_unsigned("<", following, size), loop, end)
    b.position_at_end(end)
    return every_now, some_now


def change_shadow(b: ir.IRBuilder, address: Value, size: Value, keep: int | Value, add: int) -> None:
    """Change the shadow bytes of ``size`` bytes, an i32, not 0: keep some bits, add others."""
    shadow = b.add(address, i64(SHADOW_OFFSET))
    kept = ir.Constant(I8, keep) if isinstance(keep, int) else keep
    before = b.block
    loop, end = b.append_basic_block("shade"), b.append_basic_block("shaded")
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I64)
    index.add_incoming(i64(0), before)
    byte = load(b, shadow, index, I8)
    store(b, b.or_(b.and_(byte, kept), ir.Constant(I8, add)), shadow, index)
    following = b.add(index, i64(1))
    index.add_incoming(following, loop)
    b.cbranch(b.icmp_unsigned("<", following, b.zext(size, I64)), loop, end)
    b.position_at_end(end)


def mark_written(b: ir.IRBuilder, address: Value, size: Value | int) -> None:
    """Set the initialised and written bits of the ``size`` bytes at ``address``, an i64 or a number, not 0."""
    shadow = b.add(address, i64(SHADOW_OFFSET))
    size = i64(size) if isinstance(size, int) else size
    before = b.block
    loop, end = b.append_basic_block("mark"), b.append_basic_block("mark.end")
    b.branch(loop)
    b.position_at_end(loop)
    index = b.phi(I64)
    index.add_incoming(i64(0), before)
    byte = load(b, shadow, index, I8)
    store(b, b.or_(byte, ir.Constant(I8, Shadow.INITIALISED | Shadow.WRITTEN)), shadow, index)
    following = b.add(index, i64(1))
    index.add_incoming(following, loop)
    b.cbranch(b.icmp_unsigned("<", following, size), loop, end)
    b.position_at_end(end)

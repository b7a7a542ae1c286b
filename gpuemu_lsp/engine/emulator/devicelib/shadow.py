"""Changing the shadow of a stretch of memory."""

from __future__ import annotations

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.memory import SHADOW_OFFSET
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I8, I64, Value, i64, load, store


def shade(b: ir.IRBuilder, address: Value, size: Value, keep: int | Value, add: int) -> None:
    """Change the shadow of ``size`` bytes (an i32, not 0): keep some bits, add others."""
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

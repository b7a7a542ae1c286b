"""Code that notes what is reached: a bit for each block, and for each way a branch or guard went.

Only a translation that covers has any of this; all others pay nothing for it.
"""

from __future__ import annotations

from collections.abc import Sequence

from llvmlite import ir

from gpuemu_lsp.engine.emulator.abi.states import CoverageBits
from gpuemu_lsp.engine.emulator.abi.structs import LaunchRecord
from gpuemu_lsp.engine.emulator.codegen.core.emitter import Emitter
from gpuemu_lsp.engine.emulator.llvm import ir_tools as t
from gpuemu_lsp.engine.emulator.llvm.ir_tools import I8, Value, i32


def mark_block(e: Emitter) -> None:
    """Note that the current block is reached."""
    if e.unit.coverage:
        _note(e, ir.Constant(I8, CoverageBits.REACHED))


def mark_uniform(e: Emitter, condition: Value) -> None:
    """Note the way a condition goes that is the same for all lanes."""
    if e.unit.coverage:
        _note(
            e, e.builder.select(condition, ir.Constant(I8, CoverageBits.TAKEN), ir.Constant(I8, CoverageBits.NOT_TAKEN))
        )


def mark_lanes(e: Emitter, parts: Sequence[Value]) -> None:
    """Note the ways a condition goes, given as one i1 vector per part, in the running lanes."""
    if not e.unit.coverage:
        return
    b = e.builder
    lanes, bits = e.block_mask(), e.pack(parts)
    found = ir.Constant(I8, 0)
    for some, bit in ((b.and_(bits, lanes), CoverageBits.TAKEN), (b.and_(b.not_(bits), lanes), CoverageBits.NOT_TAKEN)):
        here = b.icmp_unsigned("!=", some, i32(0))
        found = b.or_(found, b.select(here, ir.Constant(I8, bit), ir.Constant(I8, 0)))
    _note(e, found)


def _note(e: Emitter, bits: Value) -> None:
    table = e.launch(LaunchRecord.COVERAGE)
    known = t.load(e.builder, table, e.site, I8)
    t.store(e.builder, e.builder.or_(known, bits), table, e.site)

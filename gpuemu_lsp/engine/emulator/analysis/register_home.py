"""Which registers live in machine registers, and which in memory all the time.

A block where a warp can be resumed, or that the dispatcher can enter, makes the compiler merge every register alive
there from all its entries. With many such blocks that costs more, in translation and in moves, than loads and stores.
"""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.divergence import DivergenceInfo
from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Program

_CHEAP = 250
"""Registers merged, over all blocks, up to which nothing is put into memory."""


def registers_kept_in_memory(
    program: Program, graph: ControlFlowGraph, live: Liveness, info: DivergenceInfo
) -> frozenset[str]:
    """Return the registers to keep in memory: where merging is dear, all but those of loops without barriers."""
    entered = set(info.divergent) | {
        b.terminator.target for b in program.blocks if isinstance(b.terminator, BarrierSync)
    }
    merged = [live.live_in[number] for number in entered]
    if sum(bits.bit_count() for bits in merged) <= _CHEAP:
        return frozenset()
    alive = 0
    for bits in merged:
        alive |= bits
    return frozenset(live.registers(alive)) - _in_tight_loops(program, graph)


def _in_tight_loops(program: Program, graph: ControlFlowGraph) -> set[str]:
    """Return the registers that loops without a barrier use."""
    names: set[str] = set()
    for latch, header in graph.back_edges:
        # Blocks of a loop are contiguous.
        body = program.blocks[header : latch + 1]
        if any(isinstance(block.terminator, BarrierSync) for block in body):
            continue
        for block in body:
            names.update(terminator_reads(block))
            for instruction in block.code:
                names.update(registers_read(instruction))
                names.update(registers_written(instruction))
    return names

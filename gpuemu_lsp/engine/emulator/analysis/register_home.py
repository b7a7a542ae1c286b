"""Home of each register: an LLVM value, or a slot in memory.

LLVM promotes a register's alloca to SSA values (mem2reg). Every block where a warp can be resumed, or that the
dispatcher can enter, then needs a phi node for each register live there, with an operand per predecessor. With many
such blocks the phi nodes cost more, in compile time and in moves, than loads and stores would.
"""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.divergence import DivergenceInfo
from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, Program

_MAX_PHIS = 250
"""Phi nodes, over all blocks, up to which every register is promoted."""


def registers_kept_in_memory(
    program: Program, graph: ControlFlowGraph, live: Liveness, info: DivergenceInfo
) -> frozenset[str]:
    """Return the registers to keep in memory: none where phi nodes are few, else all live ones outside of hot loops."""
    # A barrier is where a warp is suspended; the dispatcher enters divergent blocks.
    entered = set(info.divergent) | {
        b.terminator.target for b in program.blocks if isinstance(b.terminator, BarrierSync)
    }
    merged = [live.live_in[number] for number in entered]
    if sum(bits.bit_count() for bits in merged) <= _MAX_PHIS:
        return frozenset()
    alive = 0
    for bits in merged:
        alive |= bits
    # In a loop that is never left for the scheduler, a load and a store per iteration would outweigh the phi nodes.
    return frozenset(live.registers(alive)) - _registers_of_hot_loops(program, graph)


def _registers_of_hot_loops(program: Program, graph: ControlFlowGraph) -> set[str]:
    """Return the registers that loops without a barrier read or write."""
    names: set[str] = set()
    for latch, header in graph.back_edges:
        # The blocks of a natural loop are contiguous (see cfg).
        body = program.blocks[header : latch + 1]
        if any(isinstance(block.terminator, BarrierSync) for block in body):
            continue
        for block in body:
            names.update(terminator_reads(block))
            for instruction in block.code:
                names.update(registers_read(instruction))
                names.update(registers_written(instruction))
    return names

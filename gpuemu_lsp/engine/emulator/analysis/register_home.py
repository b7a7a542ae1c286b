"""Which registers live in machine registers, and which in memory all the time.

A block where a warp can be resumed, or that the dispatcher can enter, makes the compiler merge every register alive
there from all its entries. With many such blocks that costs more, in translation and in moves, than loads and stores.
"""

from __future__ import annotations

from gpuemu_lsp.engine.emulator.analysis.cfg import Graph
from gpuemu_lsp.engine.emulator.analysis.divergence import Uniformity
from gpuemu_lsp.engine.emulator.analysis.liveness import Liveness
from gpuemu_lsp.engine.emulator.ir.operands import read, read_at_end, written
from gpuemu_lsp.engine.emulator.ir.program import Barrier, Program

_CHEAP = 250
"""Registers merged, over all blocks, up to which nothing is put into memory."""


def kept_in_memory(program: Program, graph: Graph, live: Liveness, info: Uniformity) -> frozenset[str]:
    """Return the registers to keep in memory: where merging is dear, all but those of loops without barriers."""
    entered = set(info.divergent) | {b.end.target for b in program.blocks if isinstance(b.end, Barrier)}
    merged = [live.live_in[number] for number in entered]
    if sum(bits.bit_count() for bits in merged) <= _CHEAP:
        return frozenset()
    alive = 0
    for bits in merged:
        alive |= bits
    return frozenset(live.registers(alive)) - _in_tight_loops(program, graph)


def _in_tight_loops(program: Program, graph: Graph) -> set[str]:
    """Return the registers that loops without a barrier use."""
    names: set[str] = set()
    for latch, header in graph.back_edges:
        # Blocks of a loop are contiguous.
        body = program.blocks[header : latch + 1]
        if any(isinstance(block.end, Barrier) for block in body):
            continue
        for block in body:
            names.update(read_at_end(block))
            for instruction in block.code:
                names.update(read(instruction))
                names.update(written(instruction))
    return names

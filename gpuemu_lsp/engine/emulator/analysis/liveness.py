"""Which registers are alive at the start and end of each block, as bit sets."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import Program


@dataclass(frozen=True, slots=True)
class Liveness:
    """Bit sets over ``names``: bit i stands for ``names[i]``."""

    names: tuple[str, ...]
    bit: dict[str, int]
    live_in: tuple[int, ...]
    live_out: tuple[int, ...]
    defined: tuple[int, ...]

    def registers(self, bits: int) -> list[str]:
        """Return the names in a bit set."""
        result = []
        while bits:
            lowest = bits & -bits
            result.append(self.names[lowest.bit_length() - 1])
            bits ^= lowest
        return result


def liveness(program: Program, graph: ControlFlowGraph) -> Liveness:
    """Compute liveness backwards over the blocks.

    A guarded write does not end a register's life: the old value stays where the guard does not hold.
    """
    names = tuple(program.registers)
    bit = {name: index for index, name in enumerate(names)}
    uses: list[int] = []
    kills: list[int] = []
    defined: list[int] = []
    for block in program.blocks:
        use = kill = every = 0
        for instruction in block.code:
            use |= _bits(registers_read(instruction), bit) & ~kill
            writes = _bits(registers_written(instruction), bit)
            every |= writes
            if instruction.guard is None:
                kill |= writes
        use |= _bits(terminator_reads(block), bit) & ~kill
        uses.append(use)
        kills.append(kill)
        defined.append(every)
    live_in, live_out = _solve(graph, uses, kills)
    return Liveness(names, bit, tuple(live_in), tuple(live_out), tuple(defined))


def _bits(names: Sequence[str], bit: dict[str, int]) -> int:
    result = 0
    for name in names:
        index = bit.get(name)
        if index is not None:
            result |= 1 << index
    return result


def _solve(graph: ControlFlowGraph, uses: Sequence[int], kills: Sequence[int]) -> tuple[list[int], list[int]]:
    count = len(uses)
    live_in, live_out = list(uses), [0] * count
    work = list(range(count))
    queued = set(work)
    while work:
        block = work.pop()
        queued.discard(block)
        out = 0
        for target in graph.successors[block]:
            out |= live_in[target]
        into = uses[block] | (out & ~kills[block])
        live_out[block] = out
        if into != live_in[block]:
            live_in[block] = into
            for source in graph.predecessors[block]:
                if source not in queued:
                    queued.add(source)
                    work.append(source)
    return live_in, live_out

"""Liveness: the registers live at the start and end of each basic block, as bit sets.

A register is live where a later use may read its current value; the blocks in which it is live are its live range. A
backward may-analysis: ``in = uses | (out - kills)``, with ``out`` the union over the successors. Live registers are
what a suspended warp saves, and what a waiting lane still needs (:mod:`.divergence`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Instruction

_COMPUTES = frozenset({
    "add", "addc", "sub", "subc", "mul", "mul24", "mad", "mad24", "madc", "fma", "div", "rem", "min", "max",
    "abs", "neg", "sad", "dp2a", "dp4a", "sqrt", "rsqrt", "rcp", "ex2", "lg2", "sin", "cos", "tanh", "setp",
    "set", "mma", "wmma", "atom", "red",
})  # fmt: skip
"""Opcodes that compute with a value. Others pass it on, as a store of a struct with a member that is never read,
or put bits together of which some may be padding."""


@dataclass(frozen=True, slots=True)
class Liveness:
    """Bit sets per block, over ``names``: bit i stands for ``names[i]``, and ``bit`` maps names to i.

    ``live_in`` and ``live_out`` are the live registers; ``defined`` those written anywhere in the block. Python's
    integers are the bit sets: union and difference of a thousand registers are one operation.
    """

    names: tuple[str, ...]
    bit: dict[str, int]
    live_in: tuple[int, ...]
    live_out: tuple[int, ...]
    defined: tuple[int, ...]

    def registers(self, bits: int) -> list[str]:
        """Return the names of the registers in a bit set."""
        result = []
        while bits:
            lowest = bits & -bits
            result.append(self.names[lowest.bit_length() - 1])
            bits ^= lowest
        return result


def liveness(program: Program, graph: ControlFlowGraph) -> Liveness:
    """Compute the live registers of every block of a program."""
    names = tuple(program.registers)
    bit = {name: index for index, name in enumerate(names)}
    uses: list[int] = []
    kills: list[int] = []
    defined: list[int] = []
    for block in program.blocks:
        use = kill = every = 0
        for instruction in block.code:
            # Upward-exposed uses: a register that the block has defined before is not read from outside.
            use |= _bits(registers_read(instruction), bit) & ~kill
            writes = _bits(registers_written(instruction), bit)
            every |= writes
            # A guarded definition does not kill: lanes whose guard is false keep the old value.
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
        # Special registers such as %tid.x are read, but have no storage.
        if index is not None:
            result |= 1 << index
    return result


def _solve(graph: ControlFlowGraph, uses: Sequence[int], kills: Sequence[int]) -> tuple[list[int], list[int]]:
    count = len(uses)
    live_in, live_out = list(uses), [0] * count
    # The last block comes off the list first, close to the best order for a backward analysis.
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
        # Only a change at the block's start can change its predecessors.
        if into != live_in[block]:
            live_in[block] = into
            for source in graph.predecessors[block]:
                if source not in queued:
                    queued.add(source)
                    work.append(source)
    return live_in, live_out


def undefined_uses(program: Program, graph: ControlFlowGraph, live: Liveness) -> dict[str, Instruction]:
    """Return the registers that are computed with before a value is assigned, and the first such use of each.

    Compilers leave such a register where a source variable has no value, as an accumulator without ``= 0``, and also
    where control flow shows that the value is not used. Which of the two it is shows in the results of launches that
    differ in the initial values of these registers only.
    """
    found: dict[str, Instruction] = {}
    entering = [0] * len(program.blocks)
    entering[0] = live.live_in[0]
    work = [0] if entering[0] else []
    while work:
        number = work.pop()
        undefined = entering[number]
        for instruction in program.blocks[number].code:
            if instruction.opcode in _COMPUTES:
                for name in registers_read(instruction):
                    if name in live.bit and undefined >> live.bit[name] & 1:
                        found.setdefault(name, instruction)
            if instruction.guard is None:
                for name in registers_written(instruction):
                    if name in live.bit:
                        undefined &= ~(1 << live.bit[name])
        for target in graph.successors[number]:
            added = undefined & live.live_in[target] & ~entering[target]
            if added:
                entering[target] |= added
                work.append(target)
    return found

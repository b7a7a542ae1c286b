"""Liveness: the registers live at the start and end of each basic block, as bit sets.

A register is live where a later use may read its current value; the blocks in which it is live are its live range. A
backward may-analysis: ``in = uses | (out - kills)``, with ``out`` the union over the successors. Live registers are
what a suspended warp saves, and what a waiting lane still needs (:mod:`.divergence`).
"""

from __future__ import annotations

import operator
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.dataflow import BITS, Direction, solve
from gpuemu_lsp.engine.emulator.analysis.dominators import dominates, dominators
from gpuemu_lsp.engine.emulator.ir.operands import registers_read, registers_written, terminator_reads
from gpuemu_lsp.engine.emulator.ir.program import Program
from gpuemu_lsp.engine.ptx.model import Instruction, Register

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

    ``live_in`` and ``live_out`` are the live registers; ``defined`` those written anywhere in the block,
    ``killed`` those written for all lanes.
    """

    names: tuple[str, ...]
    bit: dict[str, int]
    live_in: tuple[int, ...]
    live_out: tuple[int, ...]
    defined: tuple[int, ...]
    killed: tuple[int, ...]

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
    live_out, live_in = solve(graph, BITS, lambda block, out: uses[block] | (out & ~kills[block]), Direction.BACKWARD)
    return Liveness(names, bit, tuple(live_in), tuple(live_out), tuple(defined), tuple(kills))


def _bits(names: Sequence[str], bit: dict[str, int]) -> int:
    result = 0
    for name in names:
        index = bit.get(name)
        # Special registers such as %tid.x are read, but have no storage.
        if index is not None:
            result |= 1 << index
    return result


def undefined_uses(program: Program, graph: ControlFlowGraph, live: Liveness) -> dict[str, Instruction]:
    """Return the registers that are computed with before a value is assigned, and the first such use of each.

    Compilers leave such a register where a source variable has no value, as an accumulator without ``= 0``, and also
    where control flow shows that the value is not used. Which of the two it is shows in the results of launches that
    differ in the initial values of these registers only.
    """
    found: dict[str, Instruction] = {}
    if not live.live_in[0]:
        return found
    entering, _ = solve(graph, BITS, lambda block, undefined: undefined & ~live.killed[block], entry=live.live_in[0])
    for block, undefined in zip(program.blocks, map(operator.and_, entering, live.live_in), strict=True):
        for instruction in block.code if undefined else ():
            if instruction.opcode in _COMPUTES:
                for name in registers_read(instruction):
                    if name in live.bit and undefined >> live.bit[name] & 1:
                        found.setdefault(name, instruction)
            if instruction.guard is None:
                undefined &= ~_bits(registers_written(instruction), live.bit)
    return found


def uses_before_assignment(program: Program, graph: ControlFlowGraph) -> Iterator[Instruction]:
    """Yield the instructions that compute with a register which is undefined when they are first executed.

    That is so if every assignment to the register, also through copies, comes after the use: the use dominates it. An
    undefined value may be copied, shuffled, selected or stored and never matter, as in
    ``int b; if (lane == 0) b = atomicAdd(n, 32); b = shfl(b, 0);``.
    """
    dominator = dominators(graph.successors)
    definitions: dict[str, list[tuple[int, int, Instruction]]] = defaultdict(list)
    for number, block in enumerate(program.blocks):
        for index, instruction in enumerate(block.code):
            for name in registers_written(instruction):
                definitions[name].append((number, index, instruction))

    def is_undefined(name: str, block: int, index: int) -> bool:
        copies = {name}
        left = [name]
        while left:
            for number, place, instruction in definitions[left.pop()]:
                after = place >= index if number == block else dominates(dominator, block, number)
                if after:
                    continue
                source = instruction.operands[1] if instruction.opcode == "mov" else None
                if not isinstance(source, Register) or instruction.guard is not None:
                    return False
                # Special registers, such as %tid.x, are not declared.
                if source.name not in program.registers:
                    return False
                if source.name not in copies:
                    copies.add(source.name)
                    left.append(source.name)
        return True

    for number, block in enumerate(program.blocks):
        for index, instruction in enumerate(block.code):
            if instruction.opcode in _COMPUTES and instruction.guard is None:
                names = (name for name in registers_read(instruction) if name in program.registers)
                if any(is_undefined(name, number, index) for name in names):
                    yield instruction

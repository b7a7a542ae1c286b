"""Live-range splitting: each web of definitions and uses gets a register of its own.

A web is a maximal set of definitions that some use cannot distinguish: two definitions that reach the same use are in
one web (Muchnick, "Advanced Compiler Design and Implementation", 16.3.3). NVRTC assigns one register to values whose
live ranges do not overlap, so that a loop counter may follow ``%tid.x`` in the same register. Divergence analysis keeps
one lattice value per register: with a register per web, unrelated values do not join.

Webs alone are not enough for ``for (i = tid; i < n; i += step)``, where the first definition and the one in the loop
reach the same uses. There an integer definition is split further: it writes a register of its own, a ``mov`` copies
that to the web's register, and uses that only this definition reaches read the original::

    mov  %r1, %tid.x                mov  %r1.own0, %tid.x        affine, step 1
    shl  %r2, %r1, 2                mov  %r1, %r1.own0           varying, if lanes leave the loop in
    loop:                    =>     shl  %r2, %r1.own0, 2          different iterations
      add  %r1, %r1, %r5            loop:
                                      add  %r1, %r1, %r5

This takes the place of SSA construction; see the package :mod:`..ir` for why the IR is not SSA.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.dataflow import BITS, solve
from gpuemu_lsp.engine.emulator.ir.opcodes import COPY, POP, PUSH
from gpuemu_lsp.engine.emulator.ir.operands import (
    CARRY,
    registers_read,
    registers_written,
    split_operands,
    terminator_reads,
)
from gpuemu_lsp.engine.emulator.ir.program import BarrierSync, BasicBlock, Branch, Program, Switch, Terminator
from gpuemu_lsp.engine.ptx.model import Address, Guard, Instruction, Negated, Operand, Pair, Register, Vector

_NOT_SPLIT = frozenset({"call", PUSH, POP, COPY})
"""Opcodes that refer to registers by name, not only by operand: the registers they access are not split."""

_AFFINE_TYPES = {f"{kind}{bits}": f"b{bits}" for kind in "bus" for bits in (32, 64)}
"""Types of registers that can hold affine values, and the type of the ``mov`` that copies them."""

_NEVER = 1 << 20
"""A number of definitions that marks a register as not to be split."""


def split_webs(program: Program, graph: ControlFlowGraph) -> Program:
    """Return the program with a register for each web."""
    # A recursive function has one body for all calls: definitions reach uses along returns that are not in the graph.
    if program.recursive:
        return program
    counts: dict[str, int] = {}
    for block in program.blocks:
        for instruction in block.code:
            whole = instruction.opcode in _NOT_SPLIT
            for name in registers_written(instruction):
                counts[name] = counts.get(name, 0) + (_NEVER if whole else 1)
            if whole:
                counts.update(dict.fromkeys(registers_read(instruction), _NEVER))
    # A register with one definition is a web already; the carry flag is an implicit operand, and cannot be renamed.
    chosen = {n for n, count in counts.items() if 1 < count < _NEVER and n in program.registers and n != CARRY}
    if not chosen:
        return program
    webs = _Webs(program, graph, chosen)
    # setdefault keeps the declared type: the first web of a register keeps its name.
    registers = dict(program.registers)
    for definition, name in enumerate(webs.name):
        registers.setdefault(name, program.registers[webs.register[definition]])
    for definition, name in webs.own.items():
        registers.setdefault(name, program.registers[webs.register[definition]])
    if len(registers) == len(program.registers):
        return program
    blocks = tuple(webs.renamed(number) for number in range(len(program.blocks)))
    return replace(program, blocks=blocks, registers=registers)


_Access: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], bool]
"""Chosen registers that one instruction writes and reads, and whether it is guarded."""


class _Webs:
    """Reaching definitions of the chosen registers, and the webs that they form (union-find over definitions).

    Definitions are numbered in program order; sets of them are bit sets.
    """

    def __init__(self, program: Program, graph: ControlFlowGraph, chosen: set[str]) -> None:
        self._program, self._graph = program, graph
        self.register: list[str] = []
        self._first: list[int] = []
        """Number of the first definition in each block."""
        self._of: dict[str, int] = dict.fromkeys(chosen, 0)
        """Bit set of all definitions of each register."""
        self._accesses: list[list[_Access]] = []
        """For each block, one entry per instruction."""
        for block in program.blocks:
            self._first.append(len(self.register))
            self._accesses.append([])
            for instruction in block.code:
                writes, reads = self._chosen(registers_written(instruction)), self._chosen(registers_read(instruction))
                self._accesses[-1].append((writes, reads, instruction.guard is not None))
                for name in writes:
                    self._of[name] |= 1 << len(self.register)
                    self.register.append(name)
        self._parent = list(range(len(self.register)))
        self._members: dict[int, int] = {}
        """Bit set of the definitions of each web with more than one, by its root."""
        self._reaching = self._solve()
        # Definitions that share a use with others, and definitions that have a use of their own.
        joined = alone = 0
        for number in range(len(program.blocks)):
            for uses in self._uses(number):
                for bits in uses.values():
                    self._unite(bits)
                    if bits & (bits - 1):
                        joined |= bits
                    else:
                        alone |= bits
        self.name = self._names()
        """Register of each definition's web."""
        self.own = self._own_names(joined & alone)
        """Register of its own for a definition that shares some uses with others, but not all."""

    def _names(self) -> list[str]:
        """Return the register of each definition's web; the first web of a register keeps its name."""
        names: dict[int, str] = {}
        count: dict[str, int] = {}
        for definition, register in enumerate(self.register):
            root = self._find(definition)
            if root not in names:
                number = count.get(register, 0)
                count[register] = number + 1
                names[root] = f"{register}.{number}" if number else register
        return [names[self._find(definition)] for definition in range(len(self.register))]

    def _own_names(self, candidates: int) -> dict[int, str]:
        """Return a register of its own for each of the ``candidates`` that can be affine."""
        registers = self._program.registers
        # A guarded definition leaves the old value in some lanes: a copy of it would overwrite that.
        guarded = self._guarded()
        return {
            definition: f"{self.register[definition]}.own{definition}"
            for definition in range(len(self.register))
            if candidates >> definition & 1
            and not guarded >> definition & 1
            and registers[self.register[definition]] in _AFFINE_TYPES
        }

    def _guarded(self) -> int:
        """Return the bit set of guarded definitions."""
        result = definition = 0
        for accesses in self._accesses:
            for writes, _, guarded in accesses:
                for _ in writes:
                    result |= guarded << definition
                    definition += 1
        return result

    def renamed(self, number: int) -> BasicBlock:
        """Return a basic block with registers replaced by those of their webs, and with copies inserted."""
        block = self._program.blocks[number]
        uses = self._uses(number)
        definition = self._first[number]
        code: list[Instruction] = []
        for instruction, (writes, _, _) in zip(block.code, self._accesses[number], strict=True):
            # One entry per instruction, then one for the terminator: generator and instructions go in step.
            sources = self._names_of(next(uses))
            targets, copies = {}, []
            for name in writes:
                web, own = self.name[definition], self.own.get(definition)
                targets[name] = own or web
                # The copy follows at once: every use of the web, in whatever block, finds it done.
                if own:
                    kind = _AFFINE_TYPES[self._program.registers[name]]
                    operands = Register(web), Register(own)
                    copies.append(replace(instruction, opcode="mov", modifiers=(kind,), operands=operands))
                definition += 1
            code.append(_instruction(instruction, targets, sources) if targets or sources else instruction)
            code += copies
        return BasicBlock(tuple(code), _end(block.terminator, self._names_of(next(uses))))

    def _names_of(self, uses: dict[str, int]) -> dict[str, str]:
        """Return the new register for each register used, given the definitions that reach the use."""
        result = {}
        for name, bits in uses.items():
            # Without a definition that reaches the use, the register is uninitialised and keeps its name.
            if bits:
                first = (bits & -bits).bit_length() - 1
                own = self.own.get(first) if bits == 1 << first else None
                result[name] = own or self.name[first]
        return result

    def _chosen(self, registers: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in dict.fromkeys(registers) if name in self._of)

    def _solve(self) -> list[int]:
        """Return the bit set of definitions that reach the start of each block (forward may-analysis)."""
        count = len(self._program.blocks)
        made, kept = [0] * count, [-1] * count
        for number, accesses in enumerate(self._accesses):
            definition = self._first[number]
            for writes, _, guarded in accesses:
                for name in writes:
                    # A guarded definition does not kill those before it.
                    if not guarded:
                        made[number] &= ~self._of[name]
                        kept[number] &= ~self._of[name]
                    made[number] |= 1 << definition
                    definition += 1
        into, _ = solve(self._graph, BITS, lambda number, reaching: made[number] | (reaching & kept[number]))
        return into

    def _uses(self, number: int) -> Iterator[dict[str, int]]:
        """Yield, per instruction and for the terminator, the definitions that reach each register it reads.

        Unites the webs of a guarded definition and of those it may leave in place.
        """
        block, now, definition = self._program.blocks[number], self._reaching[number], self._first[number]
        for writes, reads, guarded in self._accesses[number]:
            uses = {name: now & self._of[name] for name in reads}
            for name in writes:
                if not guarded:
                    now &= ~self._of[name]
                now |= 1 << definition
                definition += 1
                # Where the guard is false the lane keeps the old value, in the same register.
                if guarded:
                    self._unite(now & self._of[name])
            yield uses
        yield {name: now & self._of[name] for name in self._chosen(terminator_reads(block))}

    def _find(self, definition: int) -> int:
        # Path halving keeps the trees flat.
        while self._parent[definition] != definition:
            self._parent[definition] = definition = self._parent[self._parent[definition]]
        return definition

    def _unite(self, bits: int) -> None:
        """Merge the webs of a set of definitions into one."""
        if not bits & (bits - 1):
            return
        root = self._find((bits & -bits).bit_length() - 1)
        members = self._members.pop(root, 1 << root)
        # All members of a web that is merged leave the set at once: unrolled code unites the same large webs again and
        # again.
        while bits := bits & ~members:
            other = self._find((bits & -bits).bit_length() - 1)
            members |= self._members.pop(other, 1 << other)
            root, other = min(root, other), max(root, other)
            self._parent[other] = root
        self._members[root] = members


def _instruction(one: Instruction, targets: dict[str, str], sources: dict[str, str]) -> Instruction:
    """Rename the operands of an instruction: destinations by ``targets``, all others by ``sources``."""
    destinations, rest = split_operands(one)
    written_to = tuple(_operand(operand, targets, sources) for operand in destinations)
    operands = (*written_to, *(_operand(operand, sources, sources) for operand in rest))
    guard = _guard(one.guard, sources) if one.guard is not None else None
    return replace(one, operands=operands, guard=guard)


def _operand(operand: Operand, names: dict[str, str], sources: dict[str, str]) -> Operand:
    """Rename an operand by ``names``; the base of an address and a negated predicate are always sources."""
    match operand:
        case Register(name):
            return Register(names.get(name, name))
        case Address(Register(name), offset):
            return Address(Register(sources.get(name, name)), offset)
        case Negated(Register(name)):
            return Negated(Register(sources.get(name, name)))
        case Vector(elements):
            return Vector(tuple(_operand(element, names, sources) for element in elements))
        case Pair(Register(first), Register(second)):
            return Pair(Register(names.get(first, first)), Register(names.get(second, second)))
        case _:
            return operand


def _guard(guard: Guard, names: dict[str, str]) -> Guard:
    name = guard.register.name
    return Guard(Register(names.get(name, name)), guard.negated)


def _end(end: Terminator, names: dict[str, str]) -> Terminator:
    match end:
        case Branch():
            return replace(end, guard=_guard(end.guard, names))
        case Switch():
            return replace(end, index=_operand(end.index, names, names))
        case BarrierSync():
            return replace(end, instruction=_instruction(end.instruction, {}, names))
        case _:
            return end

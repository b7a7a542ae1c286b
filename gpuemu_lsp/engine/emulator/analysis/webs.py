"""Registers split into webs: values that never meet get names of their own.

NVRTC gives one register to values that live one after the other, so that a loop counter may sit where ``%tid.x`` was.
The analysis of shapes knows one fact per register: with a name per web it sees each value for what it is. Where values
meet only later, as in a loop that starts at ``%tid.x``, an integer keeps a name of its own until then: its definition
is copied to the web, and what can only mean this definition reads the original.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
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

_WHOLE = frozenset({"call", PUSH, POP, COPY})
"""Their operands are more than they seem: registers they touch keep one name."""

_MOVES = {f"{kind}{bits}": f"b{bits}" for kind in "bus" for bits in (32, 64)}
"""How registers whose values may rise from lane to lane are copied."""


def split_webs(program: Program, graph: ControlFlowGraph) -> Program:
    """Return the program with a register for each web: definitions that some use cannot tell apart share one."""
    if program.recursive:
        return program
    counts: dict[str, int] = {}
    for block in program.blocks:
        for instruction in block.code:
            whole = instruction.opcode in _WHOLE
            for name in registers_written(instruction):
                counts[name] = counts.get(name, 0) + (1 << 20 if whole else 1)
            if whole:
                counts.update(dict.fromkeys(registers_read(instruction), 1 << 20))
    chosen = {n for n, count in counts.items() if 1 < count < 1 << 20 and n in program.registers and n != CARRY}
    if not chosen:
        return program
    webs = _Webs(program, graph, chosen)
    # Names are given in one go: ``webs.name`` by definition, and ``webs.own`` where it keeps a name until it meets.
    registers = dict(program.registers)
    for definition, name in enumerate(webs.name):
        registers.setdefault(name, program.registers[webs.register[definition]])
    for definition, name in webs.own.items():
        registers.setdefault(name, program.registers[webs.register[definition]])
    if len(registers) == len(program.registers):
        return program
    blocks = tuple(webs.renamed(number) for number in range(len(program.blocks)))
    return replace(program, blocks=blocks, registers=registers)


_Touch: TypeAlias = tuple[tuple[str, ...], tuple[str, ...], bool]
"""Of one instruction: registers written, registers read, and whether a guard decides."""


class _Webs:
    """Definitions, numbered, and which of them reach each use of the chosen registers."""

    def __init__(self, program: Program, graph: ControlFlowGraph, chosen: set[str]) -> None:
        self._program, self._graph = program, graph
        self.register: list[str] = []
        self._first: list[int] = []
        """The first definition of each block."""
        self._of: dict[str, int] = dict.fromkeys(chosen, 0)
        """All definitions of a register, as bits."""
        self._touched: list[list[_Touch]] = []
        """What the instructions of each block do to the chosen registers."""
        for block in program.blocks:
            self._first.append(len(self.register))
            self._touched.append([])
            for instruction in block.code:
                writes, reads = self._chosen(registers_written(instruction)), self._chosen(registers_read(instruction))
                self._touched[-1].append((writes, reads, instruction.guard is not None))
                for name in writes:
                    self._of[name] |= 1 << len(self.register)
                    self.register.append(name)
        self._parent = list(range(len(self.register)))
        self._members: dict[int, int] = {}
        """Of a web of more than one definition, all of them, as bits, by its root."""
        self._reaching = self._solve()
        meeting = alone = 0
        for number in range(len(program.blocks)):
            for uses in self._uses(number):
                for bits in uses.values():
                    self._unite(bits)
                    if bits & (bits - 1):
                        meeting |= bits
                    else:
                        alone |= bits
        self.name = self._names()
        """The name of each definition's web."""
        self.own = self._own_names(meeting & alone)
        """The name of its own of a definition that meets others, and is also read where it alone can be meant."""

    def _names(self) -> list[str]:
        """Name the webs; the first of a register keeps its name."""
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
        registers = self._program.registers
        guarded = self._guarded()
        return {
            definition: f"{self.register[definition]}.own{definition}"
            for definition in range(len(self.register))
            if candidates >> definition & 1
            and not guarded >> definition & 1
            and registers[self.register[definition]] in _MOVES
        }

    def _guarded(self) -> int:
        """Return the definitions under a guard, as bits."""
        result = definition = 0
        for touched in self._touched:
            for writes, _, guarded in touched:
                for _ in writes:
                    result |= guarded << definition
                    definition += 1
        return result

    def renamed(self, number: int) -> BasicBlock:
        """Return a block with the names of webs."""
        block = self._program.blocks[number]
        uses = self._uses(number)
        definition = self._first[number]
        code: list[Instruction] = []
        for instruction, (writes, _, _) in zip(block.code, self._touched[number], strict=True):
            sources = self._names_of(next(uses))
            targets, copies = {}, []
            for name in writes:
                web, own = self.name[definition], self.own.get(definition)
                targets[name] = own or web
                if own:
                    kind = _MOVES[self._program.registers[name]]
                    operands = Register(web), Register(own)
                    copies.append(replace(instruction, opcode="mov", modifiers=(kind,), operands=operands))
                definition += 1
            code.append(_instruction(instruction, targets, sources) if targets or sources else instruction)
            code += copies
        return BasicBlock(tuple(code), _end(block.terminator, self._names_of(next(uses))))

    def _names_of(self, uses: dict[str, int]) -> dict[str, str]:
        result = {}
        for name, bits in uses.items():
            if bits:
                first = (bits & -bits).bit_length() - 1
                own = self.own.get(first) if bits == 1 << first else None
                result[name] = own or self.name[first]
        return result

    def _chosen(self, registers: Sequence[str]) -> tuple[str, ...]:
        return tuple(name for name in dict.fromkeys(registers) if name in self._of)

    def _solve(self) -> list[int]:
        """Return the definitions that reach the start of each block."""
        count = len(self._program.blocks)
        made, kept = [0] * count, [-1] * count
        for number, touched in enumerate(self._touched):
            definition = self._first[number]
            for writes, _, guarded in touched:
                for name in writes:
                    if not guarded:
                        made[number] &= ~self._of[name]
                        kept[number] &= ~self._of[name]
                    made[number] |= 1 << definition
                    definition += 1
        into, work = [0] * count, list(range(count))[::-1]
        while work:
            number = work.pop()
            out = made[number] | (into[number] & kept[number])
            for target in self._graph.successors[number]:
                if out & ~into[target]:
                    into[target] |= out
                    work.append(target)
        return into

    def _uses(self, number: int) -> Iterator[dict[str, int]]:
        """Give, for each instruction and for the end, the definitions that reach what it reads."""
        block, now, definition = self._program.blocks[number], self._reaching[number], self._first[number]
        for writes, reads, guarded in self._touched[number]:
            uses = {name: now & self._of[name] for name in reads}
            for name in writes:
                if not guarded:
                    now &= ~self._of[name]
                now |= 1 << definition
                definition += 1
                if guarded:
                    self._unite(now & self._of[name])  # where the guard does not hold the old value stays
            yield uses
        yield {name: now & self._of[name] for name in self._chosen(terminator_reads(block))}

    def _find(self, definition: int) -> int:
        while self._parent[definition] != definition:
            self._parent[definition] = definition = self._parent[self._parent[definition]]
        return definition

    def _unite(self, bits: int) -> None:
        if not bits & (bits - 1):
            return
        root = self._find((bits & -bits).bit_length() - 1)
        members = self._members.pop(root, 1 << root)
        while bits := bits & ~members:  # a web that is there already goes at once, however large
            other = self._find((bits & -bits).bit_length() - 1)
            members |= self._members.pop(other, 1 << other)
            root, other = min(root, other), max(root, other)
            self._parent[other] = root
        self._members[root] = members


def _instruction(one: Instruction, targets: dict[str, str], sources: dict[str, str]) -> Instruction:
    destinations, rest = split_operands(one)
    written_to = tuple(_operand(operand, targets, sources) for operand in destinations)
    operands = (*written_to, *(_operand(operand, sources, sources) for operand in rest))
    guard = _guard(one.guard, sources) if one.guard is not None else None
    return replace(one, operands=operands, guard=guard)


def _operand(operand: Operand, names: dict[str, str], sources: dict[str, str]) -> Operand:
    """Rename an operand; addresses and negated predicates are read wherever they stand."""
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

"""Loops that count to a bound: they may be long, and they end.

In each iteration an integer register changes by the same constant, and it is compared with a value that the loop does
not change, in the direction in which it changes. A loop that tests two registers is counted if one of them is.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph, natural_loop
from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.ir.program import BasicBlock, Branch, Program
from gpuemu_lsp.engine.ptx.model import Guard, Immediate, Instruction, Operand, Register

_UP, _DOWN = ("lt", "le", "lo", "ls"), ("gt", "ge", "hi", "hs")
_INVERSE = {"lt": "ge", "le": "gt", "gt": "le", "ge": "lt", "eq": "ne", "ne": "eq"} | {
    "lo": "hs", "ls": "hi", "hi": "ls", "hs": "lo",
}  # fmt: skip
_SWAPPED = dict(zip((*_UP, *_DOWN), (*_DOWN, *_UP), strict=True)) | {"eq": "eq", "ne": "ne"}
_COPIES = frozenset({"mov", "cvt", "cvta"})
_SIGNED_BITS = {"32": 1 << 32, "64": 1 << 64}


def is_counted(program: Program, graph: ControlFlowGraph, number: int) -> bool:
    """Return whether a block is in a loop, and each loop that it is in counts to a bound."""
    bodies: dict[int, set[int]] = defaultdict(set)
    latches: dict[int, set[int]] = defaultdict(set)
    for latch, header in graph.back_edges:
        bodies[header] |= natural_loop([*map(list, graph.predecessors)], latch, header)
        latches[header].add(latch)
    around = [header for header, body in bodies.items() if number in body]
    loops = [_Loop.of(program.blocks, graph, header, bodies[header], latches[header]) for header in around]
    return graph.reducible and bool(loops) and all(loop.counts() for loop in loops)


@dataclass(frozen=True, slots=True)
class _Loop:
    """A loop: the branches that leave it and that each iteration executes, and its instructions by written register."""

    tests: tuple[tuple[Guard, bool], ...]
    """The guard of each branch, and whether the loop goes on where it holds."""
    written: dict[str, list[Instruction]]

    @staticmethod
    def of(
        blocks: Sequence[BasicBlock], graph: ControlFlowGraph, header: int, body: set[int], latches: set[int]
    ) -> _Loop:
        written: dict[str, list[Instruction]] = defaultdict(list)
        tests: list[tuple[Guard, bool]] = []
        for number in body:
            for instruction in blocks[number].code:
                for name in registers_written(instruction):
                    written[name].append(instruction)
            end = blocks[number].terminator
            if not isinstance(end, Branch) or {end.taken, end.not_taken} <= body:
                continue
            if latches.isdisjoint(_reached_without(graph, header, body - {number})):
                tests.append((end.guard, end.taken in body))
        return _Loop(tuple(tests), dict(written))

    def counts(self) -> bool:
        """Return whether some test compares a counter with a bound."""
        return any(self._is_bound(guard, goes_on) for guard, goes_on in self.tests)

    def _is_bound(self, guard: Guard, goes_on: bool) -> bool:
        compare = self._definition(guard.register.name)
        if compare is None or compare.opcode != "setp" or len(compare.modifiers) != 2 or len(compare.operands) != 3:
            return False
        comparison, type_ = compare.modifiers
        if comparison not in _INVERSE or type_[0] not in "sub":
            return False
        if goes_on == guard.negated:
            comparison = _INVERSE[comparison]
        for counter, bound, compared in (
            (compare.operands[1], compare.operands[2], comparison),
            (compare.operands[2], compare.operands[1], _SWAPPED[comparison]),
        ):
            step = self._step(counter) if self._is_fixed(bound) else 0
            if (step > 0 and compared not in _DOWN) or (step < 0 and compared not in _UP):
                return True
        return False

    def _is_fixed(self, operand: Operand) -> bool:
        return isinstance(operand, Immediate) or (isinstance(operand, Register) and operand.name not in self.written)

    def _definition(self, name: str) -> Instruction | None:
        """Return the only instruction of the loop that writes a register, if it is always executed with its block."""
        writers = self.written.get(name, [])
        return writers[0] if len(writers) == 1 and writers[0].guard is None else None

    def _step(self, operand: Operand) -> int:
        """Return by how much an operand changes from one iteration to the next; 0 if that is not known."""
        chain: list[tuple[str, int | None]] = []
        for name, change in self._sources(operand):
            names = [one for one, _ in chain]
            if name in names:
                changes = [change for _, change in chain[names.index(name) :]]
                return 0 if None in changes else sum(change or 0 for change in changes)
            chain.append((name, change))
        return 0

    def _sources(self, operand: Operand) -> Iterator[tuple[str, int | None]]:
        """Yield the registers that an operand is computed from by copies and additions, and what is added to each.

        None is added where that is the value of a register.
        """
        while isinstance(operand, Register):
            instruction = self._definition(operand.name)
            if instruction is None or len(instruction.operands) < 2:
                return
            first, *others = instruction.operands[1:]
            name: str = operand.name
            change: int | None = 0
            if instruction.opcode in ("add", "sub") and len(others) == 1:
                if instruction.opcode == "add" and self._is_fixed(first):
                    first, others = others[0], [first]
                if not self._is_fixed(others[0]):
                    return
                change = _constant(others[0], instruction)
            elif instruction.opcode not in _COPIES:
                return
            yield name, change
            operand = first


def _reached_without(graph: ControlFlowGraph, header: int, inside: set[int]) -> set[int]:
    """Return the blocks that an iteration may reach if it executes those of ``inside`` only."""
    return reachable([header] if header in inside else [], lambda at: inside & {*graph.successors[at]})


def _constant(operand: Operand, instruction: Instruction) -> int | None:
    """Return an integer literal as the signed number by which it changes the first operand; None for a register."""
    type_ = instruction.modifiers[-1]
    if not isinstance(operand, Immediate) or operand.kind != "int" or type_[0] not in "sub":
        return None
    size = _SIGNED_BITS.get(type_[1:], 1 << 16)
    value = operand.bits % size
    value = value - size if value >= size // 2 else value
    return value if instruction.opcode == "add" else -value

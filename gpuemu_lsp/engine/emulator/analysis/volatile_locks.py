"""Locks taken by a read and a write that are not one atomic operation: ``while (*lock); *lock = 1;``.

Volatile accesses are strong (PTX ISA section 8.4), so that no two of them are a data race, but two threads may both
read 0 before either writes 1. Most volatile flags are correct: one thread writes a flag that others poll, threads take
turns by their number, a search ends early. What distinguishes a lock is that

- a comparison of the location with a constant guards the write, which no other way leads to;
- the written constant makes the comparison fail for other threads, so that the write is meant to exclude them;
- the same thread later writes a constant for which the comparison holds again, without another look at the location.

Flow through memory, values that are not constants, and tries that give up after a while are not recognised: such locks
are missed.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from gpuemu_lsp.engine.emulator.analysis.value_flow import DefinitionUses, Edge, ValueFlow
from gpuemu_lsp.engine.emulator.ir.accesses import MemoryAccess
from gpuemu_lsp.engine.emulator.ir.operands import registers_written
from gpuemu_lsp.engine.emulator.ir.program import EXIT, Branch, Program
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Operand, Register

_COMPARISONS: Final[Mapping[str, Callable[[int, int], bool]]] = {
    "eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Admission:
    """An edge of the control-flow graph that is taken if a read value compares with a constant as given."""

    edge: Edge
    holds: bool
    comparison: str
    constant: int

    def admits(self, value: int) -> bool:
        """Whether a thread that reads ``value`` takes the edge."""
        return _COMPARISONS[self.comparison](value, self.constant) == self.holds


def volatile_locks(program: Program, accesses: Sequence[MemoryAccess]) -> frozenset[int]:
    """Return the sites of the reads and writes by which threads take a lock without an atomic operation."""
    reads = [one for one in accesses if one.instruction.opcode == "ld"]
    writes = [one for one in accesses if one.instruction.opcode == "st" and "volatile" in one.instruction.modifiers]
    # Cheap, and enough for almost every kernel: two volatile writes are needed, to take the lock and to release it.
    if not reads or not writes or program.recursive:
        return frozenset()
    flow = ValueFlow([instruction for block in program.blocks for instruction in block.code])
    search = _LockSearch(program, accesses, flow)
    return frozenset(
        site
        for read in reads
        if "volatile" in read.instruction.modifiers
        for take in search.taken_after(read)
        for site in (read.site, take.site)
    )


class _LockSearch:
    """Searches the control-flow graph for a lock's three accesses."""

    def __init__(self, program: Program, accesses: Sequence[MemoryAccess], flow: ValueFlow) -> None:
        self._program, self._flow, self._definitions = program, flow, DefinitionUses(program)
        self._names = {access.site: flow.names(access.address) for access in accesses}
        self._accesses = {access.site: access for access in accesses}
        self._first = self._definitions.first_sites
        self._constants: dict[str, set[int | None]] = {}
        self._copied: dict[str, set[Operand | None]] = {}
        # Constants reach a store through a register: PTX stores of literals exist, but NVRTC does not emit them.
        for block in program.blocks:
            for one in block.code:
                value = _immediate(one.operands[1]) if one.opcode == "mov" and one.guard is None else None
                copied = one.operands[1] if one.opcode == "mov" and one.guard is None else None
                for name in registers_written(one):
                    self._constants.setdefault(name, set()).add(value)
                    self._copied.setdefault(name, set()).add(copied)

    def taken_after(self, read: MemoryAccess) -> Iterator[MemoryAccess]:
        """Yield the writes that take a lock of which ``read`` has shown that it is free."""
        # Atomics included: with one between the read and the write the lock is taken atomically.
        same = {site for site, names in self._names.items() if names & self._names[read.site]}
        for admission in self._admissions(read):
            # A write that a thread also reaches without the comparison is not what the comparison guards.
            outside = self._reachable_blocks(admission.edge)
            for take in self._next_accesses(admission.edge[1], 0, same):
                value = self._written(take)
                if (
                    value is None
                    or admission.admits(value)
                    or take.block in outside
                    or "volatile" not in (take.instruction.modifiers)
                ):
                    continue
                # The first access on each path: a thread that looks again before it writes holds no lock.
                after = take.site - self._first[take.block] + 1
                for free in self._next_accesses(take.block, after, same):
                    freed = self._written(free)
                    if freed is not None and admission.admits(freed) and free.block not in outside:
                        yield take

    def _admissions(self, read: MemoryAccess) -> Iterator[_Admission]:
        """Yield the edges of branches on a comparison of the read value with a constant."""
        # Site, register, comparison with its constant, result of the comparison where a predicate is true, and whether
        # the predicate may be false for another reason, too.
        left = [(read.site, name, "", 0, True, False) for name in registers_written(read.instruction)]
        seen = set(left)
        while left:
            site, name, comparison, constant, holds, partial = left.pop()
            for use in self._definitions.uses(site, name):
                one = self._definitions.instructions.get(use)
                fresh: list[tuple[int, str, str, int, bool, bool]] = []
                if one is None:
                    edges = self._edges(use, name, comparison, constant, holds)
                    yield from (edge for edge in edges if edge.holds or not partial)
                # A guarded definition leaves the old value in some lanes.
                elif one.guard is not None:
                    continue
                # A volatile bool is loaded as a byte and widened.
                elif not comparison and one.opcode in ("mov", "cvt"):
                    fresh = [(use, to, "", 0, True, False) for to in registers_written(one)]
                elif not comparison and one.opcode == "setp" and one.modifiers[0] in _COMPARISONS:
                    value = _immediate(one.operands[2]) if len(one.operands) == 3 else None
                    if value is not None and one.operands[1] == Register(name):
                        fresh = [(use, to, one.modifiers[0], value, True, False) for to in registers_written(one)]
                elif comparison and one.opcode == "not":
                    fresh = [(use, to, comparison, constant, not holds, partial) for to in registers_written(one)]
                elif comparison and one.opcode == "mov" and holds:
                    # ``p && *lock == 0`` without optimisation: a predicate that is false, or the comparison's.
                    others = {to: self._copied[to] - {Register(name)} for to in registers_written(one)}
                    fresh = [
                        (use, to, comparison, constant, holds, partial or bool(other))
                        for to, other in others.items()
                        if all(map(self._is_false, other))
                    ]
                left += set(fresh) - seen
                seen |= set(fresh)

    def _is_false(self, operand: Operand | None) -> bool:
        if isinstance(operand, Register):
            return self._constants.get(operand.name) == {0}
        return isinstance(operand, Immediate) and operand.bits == 0

    def _edges(self, site: int, name: str, comparison: str, constant: int, holds: bool) -> Iterator[_Admission]:
        number = self._definitions.block_of(site)
        end = self._program.blocks[number].terminator
        if comparison and isinstance(end, Branch) and end.guard.register.name == name:
            for target, taken in ((end.taken, True), (end.not_taken, False)):
                if target != EXIT:
                    yield _Admission((number, target), holds == (taken != end.guard.negated), comparison, constant)

    def _reachable_blocks(self, without: Edge) -> set[int]:
        """Return the blocks that a thread can reach from the entry without taking an edge."""
        seen, left = {0}, [0]
        while left:
            number = left.pop()
            for target in self._program.blocks[number].targets:
                if target != EXIT and target not in seen and (number, target) != without:
                    seen.add(target)
                    left.append(target)
        return seen

    def _next_accesses(self, block: int, index: int, same: set[int]) -> Iterator[MemoryAccess]:
        """Yield the first accesses to one of the sites ``same`` on every path from an instruction of a block on."""
        # The first block is not in ``seen``: a loop may lead back to the instructions before the start.
        left, seen = [(block, index)], set[int]()
        while left:
            number, start = left.pop()
            code = self._program.blocks[number].code
            sites = range(self._first[number] + start, self._first[number] + len(code))
            found = next((site for site in sites if site in same), None)
            if found is not None:
                yield self._accesses[found]
                continue
            fresh = {to for to in self._program.blocks[number].targets if to != EXIT} - seen
            seen |= fresh
            left += [(to, 0) for to in fresh]

    def _written(self, access: MemoryAccess) -> int | None:
        """Return the constant that a store or an exchange writes, None for another access or value."""
        one: Instruction = access.instruction
        if one.opcode not in ("st", "atom") or (one.opcode == "atom" and "exch" not in one.modifiers):
            return None
        # A lock that is taken plainly is often released by an exchange.
        operand = one.operands[1 if one.opcode == "st" else 2]
        if isinstance(operand, Register):
            values = self._constants.get(operand.name, {None})
            return next(iter(values)) if len(values) == 1 else None
        return _immediate(operand)


def _immediate(operand: Operand) -> int | None:
    return operand.bits if isinstance(operand, Immediate) and operand.kind == "int" else None

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
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable
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


@dataclass(frozen=True, slots=True)
class _Followed:
    """A register at a definition that holds a read value, or the outcome of its ``comparison`` with a constant.

    ``holds``: the result of the comparison where the register is true. ``partial``: it may be false for another reason.
    """

    site: int
    name: str
    comparison: str = ""
    constant: int = 0
    holds: bool = True
    partial: bool = False


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

    def _admissions(self, read: MemoryAccess) -> list[_Admission]:
        """Return the edges of branches on a comparison of the read value with a constant."""
        admissions: list[_Admission] = []

        def following(state: _Followed) -> Iterator[_Followed]:
            for use in self._definitions.uses(state.site, state.name):
                one = self._definitions.instructions.get(use)
                if one is None:
                    edges = self._edges(use, state)
                    admissions.extend(edge for edge in edges if edge.holds or not state.partial)
                # A guarded definition leaves the old value in some lanes.
                elif one.guard is None:
                    for to in registers_written(one):
                        after = self._after(state, one, to)
                        if after is not None:
                            yield replace(after, site=use, name=to)

        reachable((_Followed(read.site, name) for name in registers_written(read.instruction)), following)
        return admissions

    def _after(self, state: _Followed, one: Instruction, target: str) -> _Followed | None:
        """Return what is known of the result of an instruction that reads a followed register, None if nothing is."""
        if not state.comparison:
            # A volatile bool is loaded as a byte and widened.
            if one.opcode in ("mov", "cvt"):
                return state
            if one.opcode == "setp" and one.modifiers[0] in _COMPARISONS and len(one.operands) == 3:
                value = _immediate(one.operands[2])
                if value is not None and one.operands[1] == Register(state.name):
                    return replace(state, comparison=one.modifiers[0], constant=value)
            return None
        if one.opcode == "not":
            return replace(state, holds=not state.holds)
        if one.opcode == "mov" and state.holds:
            # ``p && *lock == 0`` without optimisation: a predicate that is false, or the comparison's.
            others = self._copied[target] - {Register(state.name)}
            if all(map(self._is_false, others)):
                return replace(state, partial=state.partial or bool(others))
        return None

    def _is_false(self, operand: Operand | None) -> bool:
        if isinstance(operand, Register):
            return self._constants.get(operand.name) == {0}
        return isinstance(operand, Immediate) and operand.bits == 0

    def _edges(self, site: int, state: _Followed) -> Iterator[_Admission]:
        number = self._definitions.block_of(site)
        end = self._program.blocks[number].terminator
        if state.comparison and isinstance(end, Branch) and end.guard.register.name == state.name:
            for target, taken in ((end.taken, True), (end.not_taken, False)):
                if target != EXIT:
                    holds = state.holds == (taken != end.guard.negated)
                    yield _Admission((number, target), holds, state.comparison, state.constant)

    def _reachable_blocks(self, without: Edge) -> set[int]:
        """Return the blocks that a thread can reach from the entry without taking an edge."""

        def following(number: int) -> Iterator[int]:
            targets = self._program.blocks[number].targets
            return (target for target in targets if target != EXIT and (number, target) != without)

        return reachable([0], following)

    def _next_accesses(self, block: int, index: int, same: set[int]) -> list[MemoryAccess]:
        """Return the first accesses to one of the sites ``same`` on every path from an instruction of a block on."""
        accessed: list[MemoryAccess] = []

        def following(place: tuple[int, int]) -> Iterable[tuple[int, int]]:
            number, start = place
            first = self._first[number]
            sites = range(first + start, first + len(self._program.blocks[number].code))
            access = next((site for site in sites if site in same), None)
            if access is None:
                return ((target, 0) for target in self._program.blocks[number].targets if target != EXIT)
            accessed.append(self._accesses[access])
            return ()

        reachable([(block, index)], following)
        return accessed

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

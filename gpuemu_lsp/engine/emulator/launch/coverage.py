"""Coverage of a launch: goals with source locations, from the coverage bytes of generated code."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.abi.states import CoverageBits
from gpuemu_lsp.engine.emulator.analysis.comparison_solver import ComparisonSolver, literal_value
from gpuemu_lsp.engine.emulator.ir.operands import compared_predicate, registers_read, registers_written
from gpuemu_lsp.engine.emulator.ir.program import EXIT, BarrierSync, BasicBlock, Branch, Program, Trap
from gpuemu_lsp.engine.execution import Coverage, Goal, Solution
from gpuemu_lsp.engine.ptx.model import Immediate, Instruction, Location

_OUTCOMES = (CoverageBits.TAKEN, CoverageBits.NOT_TAKEN)
_ACTING = frozenset({"st", "sust", "atom", "red", "call", "cp", "mbarrier"})


def coverage_of(program: Program, reached: npt.NDArray[np.uint8]) -> Coverage:
    """Return a launch's coverage; ``reached`` has the :class:`CoverageBits`, one element per site."""
    goals, sites, bits = _goals(_ProgramKey(program))
    return Coverage(goals, (reached[sites] & bits) != 0)


class _ProgramKey:
    """A program compared by identity, as a key of the cache below: all launches of a kernel share one program."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _ProgramKey) and other.program is self.program


@lru_cache(maxsize=16)
def _goals(key: _ProgramKey) -> tuple[tuple[Goal, ...], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return a program's goals, and for each the site and the bit that show whether it is reached."""
    blocks = key.program.blocks
    # In program order, so that goals of equal programs have equal indices in every process.
    conditions = _Conditions(key.program)
    found: list[tuple[Goal, int, int]] = []
    first = 0
    for block in blocks:
        places = dict.fromkeys(one.location for one in block.code if one.location is not None)
        acting = {one.location for one in block.code if one.opcode in _ACTING}
        # Lanes that enter a basic block execute all of it: one bit stands for its lines.
        found += [(Goal(first, 0, place, acts=place in acting), first, CoverageBits.REACHED) for place in places]
        for site, one in enumerate(block.code, first):
            decided = one.guard.register if one.guard is not None else compared_predicate(one)
            if decided is not None:
                numbers, solved = conditions.numbers(decided.name), conditions.solutions(decided.name)
                for way in _OUTCOMES:
                    found.append((Goal(site, way, one.location, against=numbers, solutions=solved), site, way))
        end, last = block.terminator, first + len(block.code)
        if isinstance(end, BarrierSync | Trap) and end.instruction.location is not None:
            found.append((Goal(first, 0, end.instruction.location, acts=True), first, CoverageBits.REACHED))
        elif isinstance(end, Branch):
            name = end.guard.register.name
            at, numbers = conditions.location(name) or _last_location(block), conditions.numbers(name)
            solved = conditions.solutions(name)
            for way, target in zip(_OUTCOMES, (end.taken, end.not_taken), strict=True):
                goal = Goal(last, way, at, _first_location(blocks, target), against=numbers, solutions=solved)
                found.append((goal, last, way))
        first = last + 1
    goals = tuple(goal for goal, _, _ in found)
    sites = np.array([site for _, site, _ in found], dtype=np.int64)
    return goals, sites, np.array([bit for _, _, bit in found], dtype=np.uint8)


class _Conditions:
    """Definitions of the predicates that decide branches."""

    def __init__(self, program: Program) -> None:
        self._writers: dict[str, list[Instruction]] = defaultdict(list)
        self._solver = ComparisonSolver(program, self._writers)
        for block in program.blocks:
            for one in block.code:
                for name in registers_written(one):
                    self._writers[name].append(one)

    def location(self, predicate: str) -> Location | None:
        """Return the line that computes a predicate, which is the one with the ``if``; None if several do."""
        writers = self._writers[predicate]
        return writers[0].location if len(writers) == 1 else None

    def numbers(self, predicate: str) -> tuple[float, ...]:
        """Return the literals that a predicate compares with: inputs near them are likely to reach both outcomes."""
        return tuple(dict.fromkeys(number for one in self._comparisons(predicate) for number in _literals(one)))

    def solutions(self, predicate: str) -> tuple[Solution, ...]:
        """Return values of arguments at which the sides of its comparisons are equal."""
        found = (solution for one in self._comparisons(predicate) for solution in self._solver.solve(one))
        return tuple(dict.fromkeys(found))

    def _comparisons(self, predicate: str) -> list[Instruction]:
        seen: set[str] = set()
        left, found = [predicate], list[Instruction]()
        while left:
            name = left.pop()
            if name in seen:
                continue
            seen.add(name)
            for one in self._writers[name]:
                if "pred" in one.modifiers:  # and, or, not, mov: of other predicates
                    left += registers_read(one)
                elif one.opcode in ("setp", "set"):
                    found.append(one)
        return found


def _literals(compare: Instruction) -> Iterator[float]:
    for operand in compare.operands:
        if not isinstance(operand, Immediate):
            continue
        number = literal_value(operand)
        if math.isfinite(number):
            yield number


def _last_location(block: BasicBlock) -> Location | None:
    return next((one.location for one in reversed(block.code) if one.location is not None), None)


def _first_location(blocks: Sequence[BasicBlock], target: int) -> Location | None:
    if target == EXIT:
        return None
    return next((one.location for one in blocks[target].code if one.location is not None), None)

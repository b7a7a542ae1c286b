"""From the bits that covering code leaves to goals with places in the source."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.emulator.layout import Reach
from gpuemu_lsp.engine.emulator.operands import written
from gpuemu_lsp.engine.emulator.program import EXIT, Barrier, Block, Branch, Program, Stop
from gpuemu_lsp.engine.execution import Coverage, Goal
from gpuemu_lsp.engine.ptx.model import Location

_WAYS = (Reach.TAKEN, Reach.OTHER)
_ACTING = frozenset({"st", "atom", "red", "call", "cp", "mbarrier"})


def coverage_of(program: Program, reached: npt.NDArray[np.uint8]) -> Coverage:
    """Return what a launch reached; ``reached`` has the bits of every site."""
    goals, sites, bits = _goals(_Same(program))
    return Coverage(goals, (reached[sites] & bits) != 0)


class _Same:
    """A program as a key: by identity, as every launch of a kernel has the same one."""

    def __init__(self, program: Program) -> None:
        self.program = program

    def __hash__(self) -> int:
        return id(self.program)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Same) and other.program is self.program


@lru_cache(maxsize=16)
def _goals(key: _Same) -> tuple[tuple[Goal, ...], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """Return a program's goals, and for each the site and the bit that say whether it is reached."""
    blocks = key.program.blocks
    found: list[tuple[Goal, int, int]] = []
    first = 0
    for block in blocks:
        places = dict.fromkeys(one.location for one in block.code if one.location is not None)
        acting = {one.location for one in block.code if one.opcode in _ACTING}
        # Whoever comes to a block runs all of it: one bit stands for its lines.
        found += [(Goal(first, 0, place, acts=place in acting), first, Reach.BLOCK) for place in places]
        for site, one in enumerate(block.code, first):
            if one.guard is not None:
                found += [(Goal(site, way, one.location), site, way) for way in _WAYS]
        end, last = block.end, first + len(block.code)
        if isinstance(end, Barrier | Stop) and end.instruction.location is not None:
            found.append((Goal(first, 0, end.instruction.location, acts=True), first, Reach.BLOCK))
        elif isinstance(end, Branch):
            at = _decided(block, end)
            ways = zip(_WAYS, (end.taken, end.other), strict=True)
            found += [(Goal(last, way, at, _begins(blocks, target)), last, way) for way, target in ways]
        first = last + 1
    goals = tuple(goal for goal, _, _ in found)
    sites = np.array([site for _, site, _ in found], dtype=np.int64)
    return goals, sites, np.array([bit for _, _, bit in found], dtype=np.uint8)


def _decided(block: Block, end: Branch) -> Location | None:
    """Return where a branch's condition is computed: the line with the ``if``; else the last place before it."""
    for one in reversed(block.code):
        if end.guard.register.name in written(one) and one.location is not None:
            return one.location
    return next((one.location for one in reversed(block.code) if one.location is not None), None)


def _begins(blocks: Sequence[Block], target: int) -> Location | None:
    if target == EXIT:
        return None
    return next((one.location for one in blocks[target].code if one.location is not None), None)

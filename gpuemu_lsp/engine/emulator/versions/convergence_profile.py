"""Where lanes stay together although they might part: seen in a kernel's first launches, assumed in its optimised code.

A fork is a branch by which lanes enter a loop or not, or leave it in different rounds. Most strided loops have some,
and most warps never part there: only the warp in which a row ends does. Code that takes lanes to stay together keeps
indices as a base and a step. It looks, and hands a warp that does part to the plain code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

_RARE = 4
"""Lanes are taken to stay together at a fork where at most one warp in so many has parted."""


class ConvergenceProfile:
    """What was seen at the forks of a kernel, and what is taken for granted because of it."""

    def __init__(self) -> None:
        self._parted: Counter[int] = Counter()
        self._warps = 0
        self._steady: frozenset[int] | None = None

    @property
    def decided(self) -> bool:
        """Whether it has been decided what to take for granted."""
        return self._steady is not None

    def together(self, forks: frozenset[int]) -> frozenset[int]:
        """Return at which of the ``forks`` lanes are taken to stay together: at none as long as that is not decided."""
        if self._steady is None:
            return frozenset()
        return frozenset(forks & self._steady)

    def note(self, parted: Sequence[int], warps: int) -> None:
        """Count how often lanes have parted at the end of each block in so many ``warps``."""
        self._parted.update({number: count for number, count in enumerate(parted) if count})
        self._warps += warps

    def decide(self, parted: Sequence[int], warps: int) -> None:
        """Decide, also by what a launch under way has seen so far."""
        limit = (self._warps + warps) // _RARE
        self._steady = frozenset(number for number, count in enumerate(parted) if count + self._parted[number] <= limit)

    def give_up(self) -> None:
        """Take nothing for granted."""
        self._steady = frozenset()

    @staticmethod
    def often(apart: int, warps: int) -> bool:
        """Whether too many warps have parted where they were taken not to."""
        return apart > warps // _RARE

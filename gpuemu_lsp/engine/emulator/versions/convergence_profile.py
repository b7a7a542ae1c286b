"""Convergence profile: branches that a kernel's first launches show to be uniform in most warps.

The candidates are divergent loop branches, by which lanes enter a loop or not, or leave it in different iterations
(temporal divergence). Most strided loops have one, and most warps never diverge there: only the warp in which a row
ends does. Baseline code counts, for each basic block, the warps that diverge at its end; optimised code speculates on
branches with low counts. The consequences of a wrong speculation are described in
:mod:`~gpuemu_lsp.engine.emulator.versions`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

_RARE: Final = 4
"""A branch is speculated uniform if at most one warp in so many has diverged there.

A misspeculating warp continues in baseline code, at about half the speed, while the others gain less than that."""


class ConvergenceProfile:
    """Divergence counts of one kernel's launches, and the speculation decided from them."""

    def __init__(self) -> None:
        self._diverged: Counter[int] = Counter()
        self._warps = 0
        self._uniform: frozenset[int] | None = None

    @property
    def decided(self) -> bool:
        """Whether it is decided which branches to speculate on."""
        return self._uniform is not None

    def speculated(self, branches: frozenset[int]) -> frozenset[int]:
        """Return those of ``branches``, by block number, that are speculated uniform; none before the decision."""
        if self._uniform is None:
            return frozenset()
        return frozenset(branches & self._uniform)

    def record(self, diverged: Sequence[int], warps: int) -> None:
        """Add a launch: how many of ``warps`` diverged at the end of each basic block."""
        self._diverged.update({number: count for number, count in enumerate(diverged) if count})
        self._warps += warps

    def decide(self, diverged: Sequence[int], warps: int) -> None:
        """Decide from the recorded launches and from the counts of the current one, which has not ended."""
        limit = (self._warps + warps) // _RARE
        self._uniform = frozenset(
            number for number, count in enumerate(diverged) if count + self._diverged[number] <= limit
        )

    def disable(self) -> None:
        """Speculate on no branch from now on."""
        self._uniform = frozenset()

    @staticmethod
    def misspeculates_often(misspeculations: int, warps: int) -> bool:
        """Whether more warps diverged at speculated branches than speculation can gain by."""
        return misspeculations > warps // _RARE

"""What the cases of a kernel reached, as lines of its source."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.check.model import BranchOutcome, LineCoverage
from gpuemu_lsp.engine.check.source_map import SourceMap
from gpuemu_lsp.engine.execution import Coverage, Goal


@dataclass(slots=True)
class CoverageTotals:
    """All that the cases of one plan have reached."""

    goals: tuple[Goal, ...] = ()
    hit: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def add(self, coverage: Coverage) -> bool:
        """Take in a launch; say whether it reached something that none before did."""
        if not self.goals:
            self.goals, self.hit = coverage.goals, np.zeros(len(coverage.goals), dtype=np.bool_)
        fresh = bool((coverage.hit & ~self.hit).any())
        self.hit |= coverage.hit
        return fresh

    def missed(self) -> list[Goal]:
        """Return the ways of branches that nobody went, of branches that were come to."""
        pairs = list(zip(self.goals, map(bool, self.hit), strict=True))
        visited = {goal.site for goal, hit in pairs if goal.way and hit}
        return [goal for goal, hit in pairs if goal.way and not hit and goal.site in visited]

    def lines(self, atlas: SourceMap) -> Iterator[LineCoverage]:
        """Yield the lines of the user's own files.

        A line is reached where it acts (stores, calls, waits), if it acts anywhere: what else of it is computed, the
        compiler may compute before the branch that guards it.
        """
        acting: dict[tuple[str, int], bool] = {}
        plain: dict[tuple[str, int], bool] = {}
        ways: dict[tuple[str, int], dict[int | None, bool]] = {}
        for goal, hit in zip(self.goals, map(bool, self.hit), strict=True):
            key = _line(goal, atlas)
            if key is None:
                continue
            if goal.way:
                to = atlas.place(goal.to)[0].range.start.line if goal.to is not None else None
                of = ways.setdefault(key, {})
                of[to] = of.get(to, False) or hit
                continue
            kept = acting if goal.acts else plain
            kept[key] = kept.get(key, False) or hit
        for key in sorted({**plain, **acting, **ways}):
            branches = ways.get(key, {})
            reached = acting.get(key, plain.get(key, any(branches.values())))
            told = tuple(
                BranchOutcome(to, branches[to]) for to in sorted(branches, key=lambda to: (to is None, to or 0))
            )
            yield LineCoverage(*key, reached, told if len(told) > 1 else ())


def merged(lines: Iterable[LineCoverage]) -> tuple[LineCoverage, ...]:
    """Return every line once: reached where any of them is."""
    found: dict[tuple[str, int], LineCoverage] = {}
    for one in lines:
        known = found.get((one.path, one.line))
        if known is None:
            found[one.path, one.line] = one
            continue
        ways = {way.to: way.reached for way in known.ways}
        for way in one.ways:
            ways[way.to] = ways.get(way.to, False) or way.reached
        told = tuple(BranchOutcome(to, ways[to]) for to in sorted(ways, key=lambda to: (to is None, to or 0)))
        found[one.path, one.line] = LineCoverage(one.path, one.line, known.reached or one.reached, told)
    return tuple(found[key] for key in sorted(found))


def _line(goal: Goal, atlas: SourceMap) -> tuple[str, int] | None:
    place = atlas.known(goal.at)
    return None if place is None else (place.path, place.range.start.line)

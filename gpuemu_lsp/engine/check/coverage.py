"""Line and branch coverage of a kernel's cases."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.check.model import BranchOutcome, LineCoverage
from gpuemu_lsp.engine.execution import Coverage, Goal
from gpuemu_lsp.engine.subjects.source_map import SourceMap


@dataclass(slots=True)
class CoverageTotals:
    """Coverage goals of a kernel and the mask, by goal, of those that a case of one plan has reached.

    ``hit`` has the shape (goals,).
    """

    goals: tuple[Goal, ...] = ()
    hit: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))

    def add(self, coverage: Coverage) -> bool:
        """Add the coverage of a launch; return whether it reached a goal that no earlier launch did."""
        if not self.goals:
            self.goals, self.hit = coverage.goals, np.zeros(len(coverage.goals), dtype=np.bool_)
        fresh = bool((coverage.hit & ~self.hit).any())
        self.hit |= coverage.hit
        return fresh

    def missed(self) -> list[Goal]:
        """Return the untaken outcomes of the branches that were executed."""
        pairs = list(zip(self.goals, map(bool, self.hit), strict=True))
        visited = {goal.site for goal, hit in pairs if goal.way and hit}
        return [goal for goal, hit in pairs if goal.way and not hit and goal.site in visited]

    def lines(self, source_map: SourceMap) -> Iterator[LineCoverage]:
        """Yield the coverage of each line of the user's own files.

        A line with side effects (stores, calls, barriers) counts as reached if one of them was executed. The rest of
        it says less: the compiler may hoist a computation above the branch that guards it.
        """
        effects: dict[tuple[str, int], bool] = {}
        others: dict[tuple[str, int], bool] = {}
        branches: dict[tuple[str, int], dict[int | None, bool]] = {}
        for goal, hit in zip(self.goals, map(bool, self.hit), strict=True):
            key = _line(goal, source_map)
            if key is None:
                continue
            if goal.way:
                to = source_map.place(goal.to)[0].range.start.line if goal.to is not None else None
                outcomes = branches.setdefault(key, {})
                outcomes[to] = outcomes.get(to, False) or hit
                continue
            lines = effects if goal.acts else others
            lines[key] = lines.get(key, False) or hit
        for key in sorted({**others, **effects, **branches}):
            outcomes = branches.get(key, {})
            reached = effects.get(key, others.get(key, any(outcomes.values())))
            # Outcomes that all lead to one line are left out: the source has nothing to tell them apart by.
            yield LineCoverage(*key, reached, _sorted(outcomes) if len(outcomes) > 1 else ())


def merged(lines: Iterable[LineCoverage]) -> tuple[LineCoverage, ...]:
    """Return each line once, with everything that any of its entries reached."""
    found: dict[tuple[str, int], LineCoverage] = {}
    for one in lines:
        known = found.get((one.path, one.line))
        if known is None:
            found[one.path, one.line] = one
            continue
        outcomes = {branch.to: branch.reached for branch in known.ways}
        for branch in one.ways:
            outcomes[branch.to] = outcomes.get(branch.to, False) or branch.reached
        found[one.path, one.line] = LineCoverage(one.path, one.line, known.reached or one.reached, _sorted(outcomes))
    return tuple(found[key] for key in sorted(found))


def _sorted(outcomes: Mapping[int | None, bool]) -> tuple[BranchOutcome, ...]:
    """Return the outcomes of a branch by target line, the exit of the kernel last."""
    return tuple(BranchOutcome(to, outcomes[to]) for to in sorted(outcomes, key=lambda to: (to is None, to or 0)))


def _line(goal: Goal, source_map: SourceMap) -> tuple[str, int] | None:
    place = source_map.known(goal.at)
    return None if place is None else (place.path, place.range.start.line)

"""Source of a plan's cases: stored failing cases, then drawn ones, every other of them guided by coverage."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.check.case_runner import CaseRunner
from gpuemu_lsp.engine.check.coverage_guidance import FIRST
from gpuemu_lsp.engine.check.replay_store import ReplayStore
from gpuemu_lsp.engine.fuzz import cases as draw_cases
from gpuemu_lsp.engine.fuzz import special_slots
from gpuemu_lsp.engine.fuzz.model import Case, LaunchHints
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.subjects.request import CHEAP, DEFAULT_STRATEGY, FIRST_CASES, CheckOptions

_CASES_PER_SEARCH, _CASES_PER_LAUNCH, _STEPS_PER_STEP = 5, 2, 6
"""Cases that take no less time than a search for lengths, for itself and each of its launches, or steps for a step."""
_LEAST_AFTER_SEARCH, _MOST_AFTER_SEARCH = 64, 512
"""Cases that are enough by these counts, and limit of the cases while the search took longer than they."""
_SMALLER = 8
"""Ratio of the work of a case that takes too long to that of the next ones."""


@dataclass(frozen=True, slots=True)
class DrawnCase:
    """A case and its id. ``repeated``: it has run already as a stored case, and is only to be counted."""

    case: Case
    id: str
    repeated: bool = False


@dataclass(slots=True)
class CaseSource:
    """Yields the cases of one plan; ``seed`` determines the drawn ones.

    ``searched`` are the launches that found the lengths of its buffers, and their steps. Unless a number of cases was
    requested, the cases take about as long by these counts, and then until ``search_is_longer`` is False: what was
    spent on the sizes is used.
    """

    plan: Plan
    options: CheckOptions
    seed: int
    hints: LaunchHints
    store: ReplayStore
    runner: CaseRunner
    searched: tuple[int, int] = (0, 0)
    most_work: float = math.inf
    """Largest :func:`_work` of a further case."""
    search_is_longer: Callable[[], bool] = bool
    """Returns whether the search took longer than the cases so far."""

    def goes_on_smaller(self, case: Case) -> bool:
        """Return whether much smaller cases follow one that did not end in its time: not after the second such one."""
        follow = math.isinf(self.most_work)
        self.most_work = _work(case) / _SMALLER
        return follow

    def cases(self) -> Iterator[DrawnCase]:
        """Yield stored failing cases first: what failed last time most likely fails again.

        Raises
        ------
        PlanError
            If the plan has no case, as when no size satisfies its launch.
        """
        replayed = []
        for case, case_id in self.store.cases():
            replayed.append((case_id, case.dims))
            # It may fail only there: it must not pass because its code is another one.
            self.runner.run_exactly(case)
            yield DrawnCase(case, case_id)
        options, guidance = self.options, self.runner.guidance
        # The other strategies promise how every case is drawn.
        may_guide = guidance is not None and options.strategy == DEFAULT_STRATEGY
        launches, steps = self.searched if options.cases is None else (0, 0)
        # The launches of the search are larger, and their code is not optimised yet.
        least = min(_CASES_PER_LAUNCH * launches + _CASES_PER_SEARCH, _LEAST_AFTER_SEARCH) if launches else 0
        most = max(options.most, _MOST_AFTER_SEARCH if launches else 0)
        first = FIRST_CASES + bool(special_slots(self.plan))
        for index, case in enumerate(draw_cases(self.plan, self.seed, most, self.hints, options.strategy)):
            # Not a time limit: the number of cases must be the same on every machine unless the search was slow there.
            usual = options.cases is None and math.isinf(self.most_work)
            expensive = usual and index >= first and self.runner.work > CHEAP
            used = index >= least or 0 < _STEPS_PER_STEP * steps <= self.runner.steps
            if (expensive or index >= options.most) and used and not (launches and self.search_is_longer()):
                return
            if _work(case) > self.most_work:
                continue
            if may_guide and guidance is not None and index >= FIRST and index % 2:
                guided = guidance.draw()
                if guided is not None and _work(guided[0]) <= self.most_work:
                    yield DrawnCase(*guided)
                    continue
            yield DrawnCase(case, case.key.id, repeated=(case.key.id, case.dims) in replayed)


def _work(case: Case) -> int:
    """Return a measure of what a launch takes: its threads, each of which may have a loop over the largest size."""
    return math.prod((*case.grid, *case.block)) * max(case.dims.values(), default=1)

"""Judging the launches of one plan: events that stand, numbers that are wrong, and statistics over all cases."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.check.policies.confirm_unoptimized import UnoptimizedConfirmation
from gpuemu_lsp.engine.check.policies.vacuous_reference import ReferenceValues
from gpuemu_lsp.engine.execution import Event, Outcome
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle import (
    ComparisonResult,
    JudgingPolicy,
    Numerics,
    Reference,
    ReferenceEvaluation,
    ReferenceOutput,
    judge,
)
from gpuemu_lsp.engine.plan.model import Plan


@dataclass(slots=True)
class ErrorStatistics:
    """Errors of one dtype's cases so far.

    ``worst`` is the largest error of any passed case as a fraction of the allowed error, ``max_diff`` the largest
    absolute error of any case. ``errors`` has one relative error per drawn case, ``needed``, by output dtype, the
    tolerance that each drawn case needs. ``compared`` counts output elements, ``decided`` those whose error budget
    does not cover every value.
    """

    worst: float | None = None
    max_diff: float = 0.0
    errors: list[float] = field(default_factory=list)
    needed: dict[str, tuple[float, ...]] = field(default_factory=dict)
    compared: int = 0
    decided: int = 0

    def add_judged(self, result: ComparisonResult) -> None:
        """Add any judged case."""
        self.compared += result.elements
        self.decided += result.decided
        if not any(mismatch.severity is None for mismatch in result.mismatches):
            self.worst = max(self.worst or 0.0, result.worst)

    def add_drawn(self, result: ComparisonResult) -> None:
        """Add the errors of a drawn case.

        Stored cases count only if this check draws them too: the numbers of two checks with one seed are comparable
        independently of the store.
        """
        self.max_diff = max(self.max_diff, result.max_diff)
        self.errors.append(result.relative)
        for dtype, tolerance in result.needed.items():
            self.needed[dtype] = (*self.needed.get(dtype, ()), tolerance)


@dataclass(slots=True)
class CaseJudge:
    """Judges launches of one plan.

    ``confirmation`` re-examines events that the optimiser may have caused; without one all events stand.
    ``right_outputs`` names the outputs that were right in some launch. ``numerics`` are those of a case's code.
    """

    plan: Plan
    reference: Reference | None
    numerics: Callable[[Case], Numerics]
    policy: JudgingPolicy
    confirmation: UnoptimizedConfirmation | None = None
    statistics: ErrorStatistics = field(default_factory=ErrorStatistics)
    reference_values: ReferenceValues = field(default_factory=ReferenceValues)
    right_outputs: set[str] = field(default_factory=set)
    _stored: dict[str, ComparisonResult] = field(default_factory=dict)

    def events(self, case: Case, outcome: Outcome) -> Iterator[Event]:
        """Yield the events of a launch that the source explains."""
        for event in outcome.events:
            if self.confirmation is None or self.confirmation.stands(event, case):
                yield event

    def compare(
        self, case: Case, outcome: Outcome, expected: ReferenceOutput | None, stored_id: str | None = None
    ) -> ComparisonResult:
        """Compare the outputs of a completed launch; ``stored_id`` is the case's id if it comes from the store."""
        result = self.recompare(case, outcome, expected)
        self.statistics.add_judged(result)
        if expected is not None:
            self.reference_values.add(expected)
            if stored_id is not None:
                self._stored[stored_id] = result
            else:
                self.statistics.add_drawn(result)
        return result

    def recompare(self, case: Case, outcome: Outcome, expected: ReferenceOutput | None) -> ComparisonResult:
        """Compare a launch, for instance a variation of one that was judged, without adding it to the statistics."""
        evaluation = None
        if self.reference is not None and expected is not None:
            numerics = replace(self.numerics(case), approximate=outcome.approximate)
            evaluation = ReferenceEvaluation(self.reference, self.plan, case, expected, numerics)
        result = judge(self.plan, case, outcome, evaluation, self.policy)
        if expected is not None and result.decided:
            wrong = {mismatch.param for mismatch in result.mismatches if mismatch.severity is None}
            self.right_outputs |= expected.arrays.keys() - wrong
        return result

    def count_repeated(self, case_id: str) -> None:
        """Count a drawn case that was judged before as a stored one."""
        if case_id in self._stored:
            self.statistics.add_drawn(self._stored[case_id])

    @property
    def verified_nothing(self) -> bool:
        """True if outputs were compared and the error budget covered every value of all their elements."""
        return bool(self.statistics.compared) and not self.statistics.decided

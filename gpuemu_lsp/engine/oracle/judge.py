"""From a finished run to a verdict: compare, and measure the budget only where the cheap part of it is not enough."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle.arithmetic import Numerics
from gpuemu_lsp.engine.oracle.budget import configured_budget, error_budgets, quick_budgets
from gpuemu_lsp.engine.oracle.compare import compare
from gpuemu_lsp.engine.oracle.inputs import output_tensors
from gpuemu_lsp.engine.oracle.mismatch import ComparisonResult, Mismatch
from gpuemu_lsp.engine.oracle.outputs import ReferenceOutput
from gpuemu_lsp.engine.oracle.reference import Reference
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.project.model import Invariants, Tolerance, Validation


def judge(
    reference: Reference | None,
    plan: Plan,
    case: Case,
    outcome: Outcome,
    expected: ReferenceOutput | None,
    numerics: Numerics,
    tolerances: Mapping[str, Tolerance] | None = None,
    validation: Validation | None = None,
    invariants: Invariants | None = None,
) -> ComparisonResult:
    """Judge one completed run.

    Without a reference only the checks that need none are made (unwritten outputs, changed inputs, invariants). The
    derived budget costs a few evaluations of the reference; most correct runs pass without them.
    """
    tolerances = tolerances or {}
    if reference is None or expected is None:
        return compare(plan, case, outcome, None, {}, validation, invariants)
    small = quick_budgets(plan, case, expected, numerics)
    exactly = case.exact and numerics.linear
    for arg in output_tensors(plan):
        given = configured_budget(expected.arrays[arg.param], arg, tolerances)
        small[arg.param] = given if given is not None else small[arg.param]
    quick = compare(plan, case, outcome, expected, small, validation, invariants)
    if not exactly and not any(_is_numeric(mismatch.rule) for mismatch in quick.mismatches):
        return quick
    full = error_budgets(reference, plan, case, expected, numerics, tolerances)
    verdict = compare(plan, case, outcome, expected, full, validation, invariants)
    if not any(_set_by_hand(mismatch, plan, tolerances) for mismatch in verdict.mismatches):
        return verdict
    derived = error_budgets(reference, plan, case, expected, numerics, {})
    unavoidable = compare(plan, case, outcome, expected, derived, validation, invariants)
    return _excused(verdict, unavoidable, plan, tolerances)


def _set_by_hand(mismatch: Mismatch, plan: Plan, tolerances: Mapping[str, Tolerance]) -> bool:
    """Whether an error counts because of a tolerance that gpuemu.toml sets."""
    dtypes = {arg.param: arg.dtype for arg in output_tensors(plan)}
    return mismatch.rule == "numeric/tolerance-exceeded" and dtypes.get(mismatch.param) in tolerances


def _excused(
    verdict: ComparisonResult, unavoidable: ComparisonResult, plan: Plan, tolerances: Mapping[str, Tolerance]
) -> ComparisonResult:
    """Return the verdict with a word on each error that rounding alone explains; it counts all the same."""
    wrong = {mismatch.param for mismatch in unavoidable.mismatches if _is_numeric(mismatch.rule)}
    told = (
        replace(mismatch, message=f"{mismatch.message}. {_TOO_TIGHT}")
        if mismatch.param not in wrong and _set_by_hand(mismatch, plan, tolerances)
        else mismatch
        for mismatch in verdict.mismatches
    )
    return replace(verdict, mismatches=tuple(told))


_TOO_TIGHT = (
    "The tolerance in gpuemu.toml is below what the rounding of this arithmetic explains: a correct kernel may fail it"
)


def _is_numeric(rule: str) -> bool:
    """Whether a larger allowance could change the judgement."""
    return rule in ("numeric/tolerance-exceeded", "numeric/nan", "numeric/inf")

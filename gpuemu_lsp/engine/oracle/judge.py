"""Judgement of a completed launch, cheapest comparison first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np

from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.fuzz.dtypes import is_float
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.values import DEFAULT_SPECIAL
from gpuemu_lsp.engine.oracle.budget import configured_budget, error_budgets, quick_budgets
from gpuemu_lsp.engine.oracle.compare import JudgingPolicy, compare
from gpuemu_lsp.engine.oracle.inputs import compared_tensors, input_tensors
from gpuemu_lsp.engine.oracle.mismatch import ComparisonResult, Mismatch
from gpuemu_lsp.engine.oracle.reference import ReferenceEvaluation
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.project.model import Tolerance

_DEFAULT_POLICY = JudgingPolicy()


def judge(
    plan: Plan,
    case: Case,
    outcome: Outcome,
    evaluation: ReferenceEvaluation | None,
    policy: JudgingPolicy = _DEFAULT_POLICY,
) -> ComparisonResult:
    """Judge one completed launch.

    Parameters
    ----------
    plan, case, outcome
        The launch; ``outcome.status`` must be ``completed``.
    evaluation
        The reference on this case. With None only the checks that need no reference run: unwritten outputs, modified
        inputs, invariants.
    policy
        Tolerances and checks from gpuemu.toml. Outputs without a tolerance get a derived error budget.
    """
    if evaluation is None:
        return compare(plan, case, outcome, None, {}, policy)
    result = _with_lost_nans(_compared(plan, case, outcome, evaluation, policy), case, evaluation)
    if not evaluation.numerics.narrow_sums or any(_is_numeric(one.rule) for one in result.mismatches):
        return result
    return replace(result, mismatches=(*result.mismatches, *_narrow_sums(plan, case, outcome, evaluation, policy)))


def _with_lost_nans(result: ComparisonResult, case: Case, evaluation: ReferenceEvaluation) -> ComparisonResult:
    """Return the mismatches of a kernel that drops a NaN with the severity of how it does.

    Where a reduction loses it in a comparison it is an error: the result is a plausible number that depends on where
    the NaN was, as ``a < b ? b : a`` is NaN or not by the order. ``fmaxf``, whose documentation says that it returns
    the number, may be meant, and a clamp of one element: a warning if the user asked for NaN, else not named.
    """
    if case.finite:
        return result
    inputs = [case.tensors[arg.param] for arg in input_tensors(evaluation.plan) if is_float(arg.dtype)]
    most = max((values.size for values in inputs if np.isnan(values.astype(np.float64)).any()), default=0)
    sizes = {name: values.size for name, values in evaluation.expected.arrays.items()}

    def judged(mismatch: Mismatch) -> Mismatch | None:
        if mismatch.rule != "numeric/nan" or mismatch.severity is not Severity.WARNING:
            return mismatch
        if not evaluation.numerics.ignores_nan and sizes[mismatch.param] < most:
            return replace(mismatch, severity=None)
        return None if case.values in DEFAULT_SPECIAL else mismatch

    kept = [mismatch for mismatch in map(judged, result.mismatches) if mismatch is not None]
    mismatches = sorted(kept, key=lambda mismatch: mismatch.severity is not None)
    return replace(result, mismatches=tuple(mismatches))


def _narrow_sums(
    plan: Plan, case: Case, outcome: Outcome, evaluation: ReferenceEvaluation, policy: JudgingPolicy
) -> Iterator[Mismatch]:
    """Yield a mismatch for each output that would be wrong if its sums were accumulated in fp32.

    The budget follows the narrowest format of the kernel's arithmetic, so that a long sum in fp16 is allowed the error
    that it causes. Inputs and outputs in fp16 do not require such a sum. A configured tolerance accepts its error. The
    mismatch is a warning; information where the accumulator of tensor cores has that format.
    """
    wide = replace(evaluation, numerics=evaluation.numerics.with_wide_sums())
    forms = evaluation.numerics.narrow_sums
    formats = " and ".join(sorted({_NAMES[name.removeprefix("mma.")] for name in forms}))
    chosen = all(name.startswith("mma.") for name in forms)
    tolerant = {arg.param for arg in compared_tensors(plan) if arg.dtype in policy.tolerances}
    for mismatch in _compared(plan, case, outcome, wide, policy).mismatches:
        if mismatch.rule == "numeric/tolerance-exceeded" and mismatch.param not in tolerant:
            severity = Severity.INFORMATION if chosen else Severity.WARNING
            message = f"{mismatch.message}. {_NARROW_SUM.format(formats)}"
            yield replace(mismatch, rule="numeric/narrow-sum", message=message, severity=severity)


_NAMES = {"f16": "fp16", "bf16": "bfloat16", "e4m3": "fp8", "e5m2": "fp8"}
_NARROW_SUM = "A long sum is accumulated in {}; the allowed error is that of a sum in fp32"


def _compared(
    plan: Plan, case: Case, outcome: Outcome, evaluation: ReferenceEvaluation, policy: JudgingPolicy
) -> ComparisonResult:
    expected, tolerances = evaluation.expected, policy.tolerances
    # The full budget takes about a dozen evaluations of the reference. Its floor takes none and is a lower bound of
    # it, so outputs within the floor pass without them. That is the case for most correct launches.
    floors = quick_budgets(evaluation)
    # A tolerance of gpuemu.toml takes the place of the floor, which it may be below.
    for arg in compared_tensors(plan):
        configured = configured_budget(expected.arrays[arg.param], arg, tolerances)
        floors[arg.param] = configured if configured is not None else floors[arg.param]
    quick = compare(plan, case, outcome, expected, floors, policy)
    # An exact case (small integers, linear kernel) has a full budget of zero, which is below the floor.
    may_be_exact = case.exact and evaluation.numerics.linear
    if not may_be_exact and not any(_is_numeric(mismatch.rule) for mismatch in quick.mismatches):
        return quick
    result = compare(plan, case, outcome, expected, error_budgets(evaluation, tolerances), policy)
    if not any(_has_configured_tolerance(mismatch, plan, tolerances) for mismatch in result.mismatches):
        return result
    derived = compare(plan, case, outcome, expected, error_budgets(evaluation, {}), policy)
    return _with_notes(result, derived, plan, tolerances)


def _has_configured_tolerance(mismatch: Mismatch, plan: Plan, tolerances: Mapping[str, Tolerance]) -> bool:
    """Return whether an error exceeds a tolerance that gpuemu.toml sets."""
    dtypes = {arg.param: arg.dtype for arg in compared_tensors(plan)}
    return mismatch.rule == "numeric/tolerance-exceeded" and dtypes.get(mismatch.param) in tolerances


def _with_notes(
    result: ComparisonResult, derived: ComparisonResult, plan: Plan, tolerances: Mapping[str, Tolerance]
) -> ComparisonResult:
    """Add a note to each error that the derived budget allows. It remains an error: the user's tolerance applies."""
    wrong = {mismatch.param for mismatch in derived.mismatches if _is_numeric(mismatch.rule)}
    noted = (
        replace(mismatch, message=f"{mismatch.message}. {_TOO_TIGHT}")
        if mismatch.param not in wrong and _has_configured_tolerance(mismatch, plan, tolerances)
        else mismatch
        for mismatch in result.mismatches
    )
    return replace(result, mismatches=tuple(noted))


_TOO_TIGHT = (
    "The tolerance in gpuemu.toml is tighter than the error that rounding explains: a correct kernel may fail it"
)


def _is_numeric(rule: str) -> bool:
    """Return whether a larger error budget could remove a mismatch of this rule."""
    return rule in ("numeric/tolerance-exceeded", "numeric/nan", "numeric/inf")

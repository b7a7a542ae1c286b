"""From a finished run to a verdict: compare, and measure the budget only where the cheap part of it is not enough."""

from __future__ import annotations

from collections.abc import Mapping

from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.oracle.arithmetic import Numerics
from gpuemu_lsp.engine.oracle.budget import allowances, configured, least
from gpuemu_lsp.engine.oracle.compare import compare
from gpuemu_lsp.engine.oracle.inputs import output_tensors
from gpuemu_lsp.engine.oracle.mismatch import Verdict
from gpuemu_lsp.engine.oracle.reference import Reference, ReferenceOutput
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
) -> Verdict:
    """Judge one completed run.

    Without a reference only the checks that need none are made (unwritten outputs, changed inputs, invariants). The
    derived budget costs a few evaluations of the reference; most correct runs pass without them.
    """
    tolerances = tolerances or {}
    if reference is None or expected is None:
        return compare(plan, case, outcome, None, {}, validation, invariants)
    small = least(plan, case, expected, numerics)
    exactly = case.exact and numerics.linear
    for arg in output_tensors(plan):
        given = configured(expected.arrays[arg.param], arg, tolerances)
        small[arg.param] = given if given is not None else small[arg.param]
    quick = compare(plan, case, outcome, expected, small, validation, invariants)
    if not exactly and not any(_is_numeric(mismatch.rule) for mismatch in quick.mismatches):
        return quick
    full = allowances(reference, plan, case, expected, numerics, tolerances)
    return compare(plan, case, outcome, expected, full, validation, invariants)


def _is_numeric(rule: str) -> bool:
    """Whether a larger allowance could change the judgement."""
    return rule in ("numeric/tolerance-exceeded", "numeric/nan", "numeric/inf")

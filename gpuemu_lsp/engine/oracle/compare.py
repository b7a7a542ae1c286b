"""Element by element: what came out of the kernel against what the reference says, within what is allowed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import unpack
from gpuemu_lsp.engine.oracle.arithmetic import overflow_threshold, spacing
from gpuemu_lsp.engine.oracle.budget import ErrorBudget
from gpuemu_lsp.engine.oracle.inputs import output_tensors
from gpuemu_lsp.engine.oracle.mismatch import ComparisonResult, Mismatch, describe, largest_at, number
from gpuemu_lsp.engine.oracle.outputs import ReferenceOutput
from gpuemu_lsp.engine.oracle.reference_free import (
    broken_invariants,
    modified_inputs,
    short,
    unwritten_in,
    unwritten_mismatch,
)
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.model import Invariants, Validation

Mask: TypeAlias = npt.NDArray[np.bool_]


def compare(
    plan: Plan,
    case: Case,
    outcome: Outcome,
    expected: ReferenceOutput | None,
    error_budgets: Mapping[str, ErrorBudget],
    validation: Validation | None = None,
    invariants: Invariants | None = None,
) -> ComparisonResult:
    """Judge a completed run. Without ``expected`` only what needs no reference is checked."""
    validation, invariants = validation or Validation(), invariants or Invariants()
    found: list[Mismatch] = list(modified_inputs(plan, case, outcome))
    worst, decided, elements = 0.0, 0, 0
    max_diff, relative = 0.0, 0.0
    needed: dict[str, float] = {}
    for arg in output_tensors(plan):
        data = outcome.buffers.get(arg.param)
        if data is None:
            data = outcome.buffers.get(case.extra.get(f"alias:{arg.param}", ""))
        actual = None if data is None else unpack(arg, case, data)
        if actual is None:
            found.append(short(arg, case, 0 if data is None else int(data.size)))
            continue
        unwritten = unwritten_in(arg, case, outcome, actual)
        if unwritten is not None:
            found.append(unwritten_mismatch(arg, case, unwritten))
        judged = np.ones(actual.shape, dtype=np.bool_) if unwritten is None else ~unwritten
        found += broken_invariants(plan, case, arg, actual, invariants, judged)
        if expected is None:
            continue
        values = expected.arrays[arg.param]
        elements += int(judged.size)
        decided += int(np.count_nonzero(judged & ~error_budgets[arg.param].undecided))
        if is_float(arg.dtype):
            mismatches, ratio = _floats(arg, case, actual, values, error_budgets[arg.param], judged, validation)
        else:
            mismatches, ratio = _integers(arg, case, actual, values, error_budgets[arg.param], judged)
        found += mismatches
        worst = max(worst, ratio)
        distances = _distance(arg.dtype, actual, values, judged & ~error_budgets[arg.param].undecided)
        max_diff, relative = max(max_diff, distances[0]), max(relative, distances[1])
        if is_float(arg.dtype):
            needed[arg.dtype] = max(needed.get(arg.dtype, 0.0), distances[2])
    found.sort(key=lambda mismatch: (mismatch.severity is not None, -mismatch.ratio))
    return ComparisonResult(tuple(found), worst, decided, elements, max_diff, relative, needed)


def _distance(dtype: str, actual: Array, expected: Array, decided: Mask) -> tuple[float, float, float]:
    """Return the largest absolute error of a finite element, that over the largest magnitude, and the least tolerance.

    The tolerance is as in ``ComparisonResult.needed``. Relative errors are meaningless near the end of the format's
    range: GPUs flush such numbers to zero, and their spacing is as large as they are.
    """
    out, ref = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(out - ref)
    counted = decided & np.isfinite(error)
    largest = float(np.max(error, where=counted, initial=0.0))
    if largest == 0.0:
        return 0.0, 0.0, 0.0
    scale = max(float(np.max(np.abs(values), where=counted, initial=0.0)) for values in (out, ref))
    if is_float(dtype):
        form = FORMATS[dtype]
        flushed = form.tiny < FORMATS["float16"].tiny  # GPUs never flush half precision
        scale = max(scale, form.tiny / form.roundoff if flushed else form.tiny)
    with np.errstate(invalid="ignore"):
        least = float(np.max(error / (1.0 + np.abs(ref)), where=counted, initial=0.0))
    return largest, largest / scale, least


# ---- floats ----------------------------------------------------------------------------------------------------------


def _floats(
    arg: TensorArg,
    case: Case,
    actual: Array,
    expected: Array,
    allowance: ErrorBudget,
    judged: Mask,
    validation: Validation,
) -> tuple[list[Mismatch], float]:
    form = FORMATS[arg.dtype]
    out, ref = actual.astype(np.float64), expected.astype(np.float64)
    decided = judged & ~allowance.undecided
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(out - ref)
        limit = overflow_threshold(form)
        over = np.abs(ref) + allowance.allowed >= limit
        must_be_over = np.abs(ref) - allowance.allowed >= limit
        same_sign = np.signbit(out) == np.signbit(ref)
        saturated = same_sign & (np.abs(out) == form.largest) & (not form.has_inf or form.digits <= 4)
        overflowed = (np.isinf(out) & same_sign) if form.has_inf else np.isnan(out)
        # A result beyond the format is infinite (or, in eight bits, saturated); near the border both are right.
        fine = (over & (overflowed | saturated)) | (np.isinf(ref) & saturated)
        if allowance.may_overflow is not None:
            fine |= allowance.may_overflow & np.isfinite(ref) & ~np.isfinite(out)
        if not case.finite:
            fine |= _lost_with_its_other_part(ref)
        nan_wrong = decided & ~fine & (np.isnan(out) != np.isnan(ref))
        clash = np.isinf(out) & np.isinf(ref) & ~same_sign
        one_sided = (np.isinf(out) != np.isinf(ref)) | (must_be_over & np.isfinite(out))
        inf_wrong = decided & ~fine & ~nan_wrong & (clash | (one_sided & ~np.isnan(out)))
        finite = np.isfinite(out) & np.isfinite(ref) & ~inf_wrong & ~fine
        too_far = decided & finite & (error > allowance.allowed)
        ratio = np.where(decided & finite, error / np.maximum(allowance.allowed, 1e-300), 0.0)
    found = []
    if too_far.any():
        found.append(_tolerance(arg, case, out, ref, allowance, too_far, ratio))
    if validation.check_nan and nan_wrong.any():
        found += _nans(arg, case, out, ref, nan_wrong)
    if validation.check_inf and inf_wrong.any():
        found.append(_special("numeric/inf", arg, case, out, ref, inf_wrong, None))
    return found, float(np.max(ratio, initial=0.0))


def _lost_with_its_other_part(ref: Array) -> Mask:
    """Mark parts of complex numbers whose other part is NaN or infinite.

    What a product makes of them depends on how it is written (C11, Annex G.5.1): infinity times zero is NaN, unless the
    zero is known to be one.
    """
    lost = ~np.isfinite(ref)
    return lost[..., ::-1] if ref.ndim >= 2 and ref.shape[-1] == 2 else np.zeros(ref.shape, dtype=np.bool_)


def _nans(arg: TensorArg, case: Case, out: Array, ref: Array, wrong: Mask) -> list[Mismatch]:
    """Tell a NaN the kernel made from one it swallowed.

    ``max.f32`` and ``x > 0 ? x : 0`` give the other operand for a NaN, as fmaxf is documented to: with NaN among the
    inputs that is worth a warning, not an error.
    """
    found = []
    made = wrong & np.isnan(out)
    swallowed = wrong & ~np.isnan(out)
    if made.any():
        found.append(_special("numeric/nan", arg, case, out, ref, made, None))
    if swallowed.any():
        severity = None if case.finite else Severity.WARNING
        found.append(_special("numeric/nan", arg, case, out, ref, swallowed, severity))
    return found


def _tolerance(
    arg: TensorArg, case: Case, out: Array, ref: Array, allowance: ErrorBudget, wrong: Mask, ratio: Array
) -> Mismatch:
    index = largest_at(np.where(wrong, ratio, -1.0))
    error, allowed = float(abs(out[index] - ref[index])), float(allowance.allowed[index])
    magnitude = abs(float(ref[index]))
    if magnitude > 0:
        how = f"error {error / magnitude:.2g} relative, allowed {allowed / magnitude:.2g}"
    else:
        how = f"error {error:.2g}, allowed {allowed:.2g}"
    ulps = error / float(spacing(np.asarray(ref[index], dtype=np.float64), FORMATS[arg.dtype]))
    return describe(
        "numeric/tolerance-exceeded",
        arg,
        case,
        wrong,
        index,
        f"{number(out[index])}, expected {number(ref[index])} ({how})",
        expected=float(ref[index]),
        actual=float(out[index]),
        error=error,
        allowed=allowed,
        ratio=float(ratio[index]),
        ulps=ulps,
    )


def _special(
    rule: str, arg: TensorArg, case: Case, out: Array, ref: Array, wrong: Mask, severity: Severity | None
) -> Mismatch:
    index = largest_at(wrong)
    text = f"{number(out[index])}, expected {number(ref[index])}"
    if severity is not None:
        text += " (a NaN of the input was dropped, as max.f32 and comparisons do)"
    return describe(
        rule,
        arg,
        case,
        wrong,
        index,
        text,
        expected=float(ref[index]),
        actual=float(out[index]),
        severity=severity,
    )


# ---- integers --------------------------------------------------------------------------------------------------------


def _integers(
    arg: TensorArg, case: Case, actual: Array, expected: Array, allowance: ErrorBudget, judged: Mask
) -> tuple[list[Mismatch], float]:
    """Compare exactly, except where rounding of float inputs changes the reference's own answer.

    An integer reference that exceeds the output's dtype wraps, as C does.
    """
    if expected.dtype.kind != "f":
        stored = (expected != 0).astype(np.uint8) if arg.dtype == "bool" else expected.astype(actual.dtype)
        different = actual != stored
        distance = np.abs(actual.astype(np.float64) - stored.astype(np.float64))
        reference = stored
    else:
        distance = np.abs(actual.astype(np.float64) - expected)
        different = ~(distance == 0)
        reference = expected
    wrong = judged & ~allowance.undecided & different & ~(distance <= allowance.allowed)
    if not wrong.any():
        return [], 0.0
    index = largest_at(np.where(wrong, np.nan_to_num(distance, nan=np.inf), -1.0))
    value = reference[index]
    message = f"{number(actual[index])}, expected {number(value)}"
    mismatch = describe(
        "numeric/tolerance-exceeded",
        arg,
        case,
        wrong,
        index,
        message,
        expected=float(value) if reference.dtype.kind == "f" else int(value),
        actual=int(actual[index]),
        error=float(distance[index]),
        allowed=float(allowance.allowed[index]),
    )
    return [mismatch], float("inf")

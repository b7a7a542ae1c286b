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
from gpuemu_lsp.engine.fuzz.pack import element_written, pack_arguments, poison, shape_of, unpack
from gpuemu_lsp.engine.oracle.budget import Allowance
from gpuemu_lsp.engine.oracle.inputs import output_tensors
from gpuemu_lsp.engine.oracle.mismatch import Mismatch, Verdict, describe, largest_at, number, with_dims
from gpuemu_lsp.engine.oracle.reference import ReferenceOutput
from gpuemu_lsp.engine.oracle.ulp import overflow_threshold, spacing
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.model import Invariants, Validation

Mask: TypeAlias = npt.NDArray[np.bool_]


def compare(
    plan: Plan,
    case: Case,
    outcome: Outcome,
    expected: ReferenceOutput | None,
    allowances: Mapping[str, Allowance],
    validation: Validation | None = None,
    invariants: Invariants | None = None,
) -> Verdict:
    """Judge a completed run. Without ``expected`` only what needs no reference is checked."""
    validation, invariants = validation or Validation(), invariants or Invariants()
    found: list[Mismatch] = list(_modified_inputs(plan, case, outcome))
    worst, decided, elements = 0.0, 0, 0
    max_diff, relative = 0.0, 0.0
    needed: dict[str, float] = {}
    for arg in output_tensors(plan):
        data = outcome.buffers.get(arg.param)
        if data is None:
            data = outcome.buffers.get(case.extra.get(f"alias:{arg.param}", ""))
        actual = None if data is None else unpack(arg, case, data)
        if actual is None:
            found.append(_short(arg, case, 0 if data is None else int(data.size)))
            continue
        unwritten = _unwritten(arg, case, outcome, actual)
        if unwritten is not None:
            found.append(_unwritten_mismatch(arg, case, unwritten))
        judged = np.ones(actual.shape, dtype=np.bool_) if unwritten is None else ~unwritten
        found += _broken_invariants(plan, case, arg, actual, invariants, judged)
        if expected is None:
            continue
        values = expected.arrays[arg.param]
        elements += int(judged.size)
        decided += int(np.count_nonzero(judged & ~allowances[arg.param].undecided))
        if is_float(arg.dtype):
            mismatches, ratio = _floats(arg, case, actual, values, allowances[arg.param], judged, validation)
        else:
            mismatches, ratio = _integers(arg, case, actual, values, allowances[arg.param], judged)
        found += mismatches
        worst = max(worst, ratio)
        distances = _distance(actual, values, judged & ~allowances[arg.param].undecided)
        max_diff, relative = max(max_diff, distances[0]), max(relative, distances[1])
        if is_float(arg.dtype):
            needed[arg.dtype] = max(needed.get(arg.dtype, 0.0), distances[2])
    found.sort(key=lambda mismatch: (mismatch.severity is not None, -mismatch.ratio))
    return Verdict(tuple(found), worst, decided, elements, max_diff, relative, needed)


def _distance(actual: Array, expected: Array, decided: Mask) -> tuple[float, float, float]:
    """Return the largest absolute error of a finite element, that over the largest magnitude, and the least tolerance.

    The last as :attr:`~gpuemu_lsp.engine.oracle.mismatch.Verdict.needed` has it.
    """
    out, ref = actual.astype(np.float64), expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(out - ref)
    counted = decided & np.isfinite(error)
    largest = float(np.max(error, where=counted, initial=0.0))
    if largest == 0.0:
        return 0.0, 0.0, 0.0
    scale = max(float(np.max(np.abs(values), where=counted, initial=0.0)) for values in (out, ref))
    with np.errstate(invalid="ignore"):
        least = float(np.max(error / (1.0 + np.abs(ref)), where=counted, initial=0.0))
    return largest, largest / scale, least


# ---- floats ----------------------------------------------------------------------------------------------------------


def _floats(
    arg: TensorArg,
    case: Case,
    actual: Array,
    expected: Array,
    allowance: Allowance,
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
    arg: TensorArg, case: Case, out: Array, ref: Array, allowance: Allowance, wrong: Mask, ratio: Array
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
    arg: TensorArg, case: Case, actual: Array, expected: Array, allowance: Allowance, judged: Mask
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


# ---- what needs no reference -----------------------------------------------------------------------------------------


def _unwritten(arg: TensorArg, case: Case, outcome: Outcome, actual: Array) -> Mask | None:
    """Return which elements of a pure output nobody wrote, or None for none.

    Where the executor cannot tell, an element that still holds every bit of the poison was not written.
    """
    if arg.direction != "out" or f"alias:{arg.param}" in case.extra:
        return None
    written = element_written(arg, case, outcome.written)
    if written is None:
        raw = np.ascontiguousarray(actual).view(np.uint8).reshape(actual.size, -1)
        unwritten = (raw == poison(arg.dtype)).all(axis=1).reshape(actual.shape)
    else:
        unwritten = ~written
    return unwritten if unwritten.any() else None


def _unwritten_mismatch(arg: TensorArg, case: Case, unwritten: Mask) -> Mismatch:
    index = largest_at(unwritten)
    return describe("numeric/unwritten-output", arg, case, unwritten, index, "was never written")


def _modified_inputs(plan: Plan, case: Case, outcome: Outcome) -> list[Mismatch]:
    """Inputs must come back as they went in, bit for bit, unless an output was given the same memory."""
    shared = {target for key, target in case.extra.items() if key.startswith("alias:")}
    packed = {argument.name: argument for argument in pack_arguments(plan, case)}
    found = []
    for arg in plan.args:
        if not isinstance(arg, TensorArg) or arg.direction != "in" or arg.param in shared:
            continue
        after = outcome.buffers.get(arg.param)
        before = packed[arg.param].data
        if after is None or not isinstance(before, np.ndarray) or np.array_equal(after, before):
            continue
        now = unpack(arg, case, after)
        if now is None:
            found.append(_short(arg, case, int(after.size)))
            continue
        stored = np.ascontiguousarray(case.tensors[arg.param])
        changed = (
            np.ascontiguousarray(now).view(np.uint8).reshape(now.size, -1)
            != stored.view(np.uint8).reshape(now.size, -1)
        ).any(axis=1)
        wrong = changed.reshape(now.shape)
        if not wrong.any():
            message = f"the gaps between the rows of {arg.param} were written to"
            found.append(Mismatch("numeric/input-modified", arg.param, with_dims(message, case), 1, now.size))
            continue
        index = largest_at(wrong)
        text = f"was changed from {number(stored[index])} to {number(now[index])}, but {arg.param} is an input"
        found.append(describe("numeric/input-modified", arg, case, wrong, index, text))
    return found


def _broken_invariants(
    plan: Plan, case: Case, arg: TensorArg, actual: Array, invariants: Invariants, judged: Mask
) -> list[Mismatch]:
    wide = actual.astype(np.float64)
    checks = (
        (invariants.no_nan, np.isnan(wide), "no_nan"),
        (invariants.no_inf, np.isinf(wide), "no_inf"),
        (invariants.non_negative, wide < 0, "non_negative"),
    )
    found = []
    for wanted, broken, name in checks:
        wrong = broken & judged
        if wanted and wrong.any():
            index = largest_at(wrong)
            text = f"{number(actual[index])} breaks the invariant {name}"
            found.append(describe("numeric/invariant", arg, case, wrong, index, text))
    first = next((a for a in plan.args if isinstance(a, TensorArg) and a.direction != "out"), None)
    if invariants.shape_preserved and first is not None and actual.shape != shape_of(case, first.param):
        shapes = f"{arg.param} has shape {list(actual.shape)}, {first.param} has {list(shape_of(case, first.param))}"
        message = with_dims(f"{shapes}: the invariant shape_preserved is broken", case)
        found.append(Mismatch("numeric/invariant", arg.param, message, 1, 1))
    return found


def _short(arg: TensorArg, case: Case, size: int) -> Mismatch:
    shape = shape_of(case, arg.param)
    message = with_dims(f"{arg.param} came back with {size} bytes, too few for shape {list(shape)}", case)
    return Mismatch("numeric/shape-mismatch", arg.param, message, 1, 1)

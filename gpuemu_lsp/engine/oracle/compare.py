"""Element-wise comparison of a launch's outputs with the reference, within an error budget per element."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.execution import Outcome
from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.pack import unpack
from gpuemu_lsp.engine.oracle.arithmetic import integer_distance, overflow_threshold, spacing
from gpuemu_lsp.engine.oracle.budget import ErrorBudget
from gpuemu_lsp.engine.oracle.inputs import output_tensors
from gpuemu_lsp.engine.oracle.mismatch import (
    ComparisonResult,
    Deviation,
    Mismatch,
    WrongElements,
    describe,
    largest_at,
    number,
)
from gpuemu_lsp.engine.oracle.outputs import ReferenceOutput
from gpuemu_lsp.engine.oracle.reference_free import (
    broken_invariants,
    modified_inputs,
    short_buffer,
    unwritten_elements,
    unwritten_mismatch,
)
from gpuemu_lsp.engine.oracle.unordered import UnorderedOutput, compare_unordered
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.model import Invariants, Tolerance, Validation

Mask: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class JudgingPolicy:
    """Tolerances, by dtype, and the checks that gpuemu.toml configures for one kernel."""

    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)
    validation: Validation = Validation()
    invariants: Invariants = Invariants()


_DEFAULT_POLICY = JudgingPolicy()


@dataclass(frozen=True, slots=True)
class _OutputElements:
    """One output as the kernel and the reference computed it; ``judged`` marks the elements the kernel wrote."""

    arg: TensorArg
    case: Case
    actual: Array
    expected: Array
    budget: ErrorBudget
    judged: Mask

    @property
    def decided(self) -> Mask:
        """The elements that are compared: those the kernel wrote and rounding does not leave open."""
        return self.judged & ~self.budget.undecided


def compare(
    plan: Plan,
    case: Case,
    outcome: Outcome,
    expected: ReferenceOutput | None,
    budgets: Mapping[str, ErrorBudget],
    policy: JudgingPolicy = _DEFAULT_POLICY,
) -> ComparisonResult:
    """Compare the outputs of a completed launch; without ``expected`` run only the checks that need no reference.

    ``budgets`` has the error budget of each output by parameter name.
    """
    found: list[Mismatch] = list(modified_inputs(plan, case, outcome))
    worst, decided, elements = 0.0, 0, 0
    max_diff, relative = 0.0, 0.0
    needed: dict[str, float] = {}
    for arg in output_tensors(plan):
        # Also without invariants: a workspace holds whatever the algorithm leaves there.
        if arg.compare == "none":
            continue
        data = outcome.buffers.get(arg.param)
        if data is None:
            data = outcome.buffers.get(case.extra.get(f"alias:{arg.param}", ""))
        actual = None if data is None else unpack(arg, case, data)
        if actual is None:
            found.append(short_buffer(arg, case, 0 if data is None else int(data.size)))
            continue
        unwritten = unwritten_elements(arg, case, outcome, actual)
        right = None if expected is None else expected.arrays[arg.param]
        if unwritten is not None and (arg.ordered or _fills(arg, actual, right)):
            found.append(unwritten_mismatch(arg, case, unwritten))
        # Unwritten elements hold poison: their values would be reported a second time as wrong numbers.
        judged = np.ones(actual.shape, dtype=np.bool_) if unwritten is None else ~unwritten
        found += broken_invariants(plan, case, arg, actual, policy.invariants, judged)
        if right is None:
            continue
        if not arg.ordered:
            collected = UnorderedOutput(arg, case, actual, right, budgets[arg.param], judged)
            mismatches = compare_unordered(collected)
            found += mismatches
            elements, decided = elements + int(right.size), decided + collected.decided
            worst = max(worst, float("inf") if mismatches else 0.0)
            continue
        output = _OutputElements(arg, case, actual, right, budgets[arg.param], judged)
        elements += int(judged.size)
        decided += int(np.count_nonzero(output.decided))
        mismatches, ratio = _floats(output, policy.validation) if is_float(arg.dtype) else _integers(output)
        found += mismatches
        worst = max(worst, ratio)
        errors = _errors(output)
        max_diff, relative = max(max_diff, errors.absolute), max(relative, errors.relative)
        if is_float(arg.dtype):
            needed[arg.dtype] = max(needed.get(arg.dtype, 0.0), errors.tolerance)
    # A severity set here is a warning; mismatches with the rule's own severity come first.
    found.sort(key=lambda mismatch: (mismatch.severity is not None, -mismatch.ratio))
    return ComparisonResult(tuple(found), worst, decided, elements, max_diff, relative, needed)


def _fills(arg: TensorArg, actual: Array, expected: Array | None) -> bool:
    """Return whether the kernel must write every element of an output without a fixed order."""
    return arg.compare == "sorted" and expected is not None and expected.shape == actual.shape


@dataclass(frozen=True, slots=True)
class _Errors:
    """Largest absolute error of one output, the same over its magnitude, and the smallest tolerance that allows it."""

    absolute: float = 0.0
    relative: float = 0.0
    tolerance: float = 0.0


def _errors(output: _OutputElements) -> _Errors:
    """Measure the errors of finite elements; the tolerance is as in ``ComparisonResult.needed``."""
    out, ref = output.actual.astype(np.float64), output.expected.astype(np.float64)
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(out - ref)
    if output.actual.dtype.kind in "iu" and output.expected.dtype.kind in "iu":
        error = integer_distance(output.actual, output.expected.astype(output.actual.dtype))
    counted = output.decided & np.isfinite(error)
    largest = float(np.max(error, where=counted, initial=0.0))
    if largest == 0.0:
        return _Errors()
    scale = max(float(np.max(np.abs(values), where=counted, initial=0.0)) for values in (out, ref))
    if is_float(output.arg.dtype):
        # Relative errors are meaningless at the lower end of the range: the spacing of subnormals is as large as they
        # are, and `-ftz=true` flushes them to zero. It applies to fp32 only; formats with fp32's exponent range are
        # computed in fp32.
        form = FORMATS[output.arg.dtype]
        flushed = form.tiny < FORMATS["float16"].tiny
        scale = max(scale, form.tiny / form.roundoff if flushed else form.tiny)
    with np.errstate(invalid="ignore"):
        tolerance = float(np.max(error / (1.0 + np.abs(ref)), where=counted, initial=0.0))
    return _Errors(largest, largest / scale, tolerance)


# ---- floats ----------------------------------------------------------------------------------------------------------


def _floats(output: _OutputElements, validation: Validation) -> tuple[list[Mismatch], float]:
    """Return the mismatches of a float output and its largest error as a fraction of the budget."""
    form, budget = FORMATS[output.arg.dtype], output.budget
    out, ref = output.actual.astype(np.float64), output.expected.astype(np.float64)
    decided = output.decided
    with np.errstate(invalid="ignore", over="ignore"):
        error = np.abs(out - ref)
        # The fp64 reference does not overflow where the output's format does. Within the budget of the threshold both
        # infinity and the largest finite number are right; beyond it only infinity is.
        limit = overflow_threshold(form)
        over = np.abs(ref) + budget.allowed >= limit
        must_be_over = np.abs(ref) - budget.allowed >= limit
        same_sign = np.signbit(out) == np.signbit(ref)
        # PTX converts to e4m3 and e5m2 with .satfinite: overflow saturates (PTX ISA, "cvt").
        saturated = same_sign & (np.abs(out) == form.largest) & (not form.has_inf or form.digits <= 4)
        overflowed = (np.isinf(out) & same_sign) if form.has_inf else np.isnan(out)
        fine = (over & (overflowed | saturated)) | (np.isinf(ref) & saturated)
        if budget.may_overflow is not None:
            fine |= budget.may_overflow & np.isfinite(ref) & ~np.isfinite(out)
        if not output.case.finite:
            # Infinity less infinity, or times zero: another formula of the same function is infinite, or NaN.
            fine |= _complex_part_lost(ref) | (np.isinf(ref) & np.isnan(out))
        # Each element is reported under one rule at most: NaN first, then infinity, then the error.
        nan_wrong = decided & ~fine & (np.isnan(out) != np.isnan(ref))
        clash = np.isinf(out) & np.isinf(ref) & ~same_sign
        one_sided = (np.isinf(out) != np.isinf(ref)) | (must_be_over & np.isfinite(out))
        inf_wrong = decided & ~fine & ~nan_wrong & (clash | (one_sided & ~np.isnan(out)))
        finite = np.isfinite(out) & np.isfinite(ref) & ~inf_wrong & ~fine
        too_far = decided & finite & (error > budget.allowed)
        # A budget of zero (exact outputs) must give an infinite ratio and not 0/0.
        ratio = np.where(decided & finite, error / np.maximum(budget.allowed, 1e-300), 0.0)
    found = []
    if too_far.any():
        found.append(_tolerance_exceeded(output, too_far, ratio))
    if validation.check_nan and nan_wrong.any():
        found += _nan_mismatches(output, nan_wrong)
    if validation.check_inf and inf_wrong.any():
        found.append(_special_value("numeric/inf", output, inf_wrong))
    return found, float(np.max(ratio, initial=0.0))


def _complex_part_lost(ref: Array) -> Mask:
    """Mark parts of complex numbers whose other part is NaN or infinite in the reference.

    The value of a part then depends on how the product is written: infinity times zero is NaN unless the compiler
    knows that the factor is zero (C11, Annex G.5.1).
    """
    lost = ~np.isfinite(ref)
    # Complex arrays reach the kernel as pairs of reals: the last axis has the real and the imaginary part.
    return lost[..., ::-1] if ref.ndim >= 2 and ref.shape[-1] == 2 else np.zeros(ref.shape, dtype=np.bool_)


def _nan_mismatches(output: _OutputElements, wrong: Mask) -> list[Mismatch]:
    """Separate NaNs that the kernel produced from NaNs of the reference that it dropped.

    ``max.f32`` and ``x > 0 ? x : 0`` return the other operand for a NaN, as ``fmaxf`` is documented to. With NaN among
    the inputs a dropped NaN is therefore a warning and not an error.
    """
    found = []
    produced = wrong & np.isnan(output.actual.astype(np.float64))
    dropped = wrong & ~produced
    if produced.any():
        found.append(_special_value("numeric/nan", output, produced))
    if dropped.any():
        severity = None if output.case.finite else Severity.WARNING
        found.append(_special_value("numeric/nan", output, dropped, severity))
    return found


def _tolerance_exceeded(output: _OutputElements, wrong: Mask, ratio: Array) -> Mismatch:
    # The worst element is the one furthest outside its own budget, which need not have the largest error.
    index = largest_at(np.where(wrong, ratio, -1.0))
    out, ref = float(output.actual[index]), float(output.expected[index])
    error, allowed = abs(out - ref), float(output.budget.allowed[index])
    magnitude = abs(ref)
    if magnitude > 0:
        how = f"error {error / magnitude:.2g} relative, allowed {allowed / magnitude:.2g}"
    else:
        how = f"error {error:.2g}, allowed {allowed:.2g}"
    ulp = float(spacing(np.asarray(ref, dtype=np.float64), FORMATS[output.arg.dtype]))
    return describe(
        "numeric/tolerance-exceeded",
        WrongElements(output.arg, output.case, wrong, index),
        f"{number(out)}, expected {number(ref)} ({how})",
        Deviation(ref, out, error, allowed, float(ratio[index]), error / ulp),
    )


def _special_value(rule: str, output: _OutputElements, wrong: Mask, severity: Severity | None = None) -> Mismatch:
    index = largest_at(wrong)
    out, ref = float(output.actual[index]), float(output.expected[index])
    text = f"{number(out)}, expected {number(ref)}"
    if severity is not None:
        text += " (a NaN of the input was dropped, as max.f32 and comparisons do)"
    elements = WrongElements(output.arg, output.case, wrong, index)
    return describe(rule, elements, text, Deviation(ref, out), severity)


# ---- integers --------------------------------------------------------------------------------------------------------


def _integers(output: _OutputElements) -> tuple[list[Mismatch], float]:
    """Compare integers exactly, except where rounding of float inputs changes the reference's own result."""
    actual, expected, arg = output.actual, output.expected, output.arg
    if expected.dtype.kind != "f":
        # An integer result that exceeds the output's dtype wraps, as the conversion in C does.
        reference = (expected != 0).astype(np.uint8) if arg.dtype == "bool" else expected.astype(actual.dtype)
        different = actual != reference
        distance = integer_distance(actual, reference)
    else:
        reference = expected
        distance = np.abs(actual.astype(np.float64) - expected)
        different = ~(distance == 0)
    # Not `distance > allowed`: where the reference is NaN the distance is NaN too, and the element is wrong.
    wrong = output.decided & different & ~(distance <= output.budget.allowed)
    if not wrong.any():
        return [], 0.0
    index = largest_at(np.where(wrong, np.nan_to_num(distance, nan=np.inf), -1.0))
    value = reference[index]
    mismatch = describe(
        "numeric/tolerance-exceeded",
        WrongElements(arg, output.case, wrong, index),
        f"{number(actual[index])}, expected {number(value)}",
        Deviation(
            expected=float(value) if reference.dtype.kind == "f" else int(value),
            actual=int(actual[index]),
            error=float(distance[index]),
            allowed=float(output.budget.allowed[index]),
        ),
    )
    return [mismatch], float("inf")

"""How much of an error rounding explains, per element, when nobody configured a tolerance.

The reference is evaluated a few more times: with inputs off by a few unit roundoffs of the kernel's arithmetic, and
with every NumPy operation rounding likewise (:mod:`gpuemu_lsp.engine.oracle.trace`). How far the outputs move is what
a correct kernel may be off; where they become infinite, change sign of infinity or jump, nothing can be said about
that element. To this come two units in the last place of the output, and a floor for cancellation inside the kernel
that the reference's own formula does not have.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.oracle.arithmetic import KernelArithmetic, Numerics, largest_input, spacing, squares_exceed
from gpuemu_lsp.engine.oracle.copies_only import exact_copy_bound
from gpuemu_lsp.engine.oracle.inputs import output_tensors
from gpuemu_lsp.engine.oracle.outputs import ReferenceOutput
from gpuemu_lsp.engine.oracle.perturb import evaluate, finite_run, perturbed_input_runs, rounded_operation_runs, spread
from gpuemu_lsp.engine.oracle.reference import Reference, exact_inputs
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.model import Tolerance

Doubles: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

OUTPUT_ULPS = 2.0
FLOOR = 8.0
"""The floor, in unit roundoffs of the largest magnitudes around."""
_NEAR_OVERFLOW = 32.0
"""Partial results may be this much larger than the result."""
_SMALL_TENSOR = 16
_EXACT_DIGITS = 21
"""Small integers are exact in fp32, and in sums on tensor cores."""
_HOPELESS = 0.25
"""Where rounding moves an element by this share of the largest, as in ``sin(1e8 * x)``, nothing is left to compare."""


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """The absolute error allowed per element of an output, and the elements about which nothing can be said.

    ``may_overflow`` marks elements so close to the end of the kernel's range that infinity or NaN is excused there.
    """

    allowed: Doubles
    undecided: Mask
    may_overflow: Mask | None = None


def error_budgets(
    reference: Reference,
    plan: Plan,
    case: Case,
    expected: ReferenceOutput,
    numerics: Numerics,
    tolerances: Mapping[str, Tolerance],
) -> dict[str, ErrorBudget]:
    """Return what is allowed for every output: as configured for its dtype, else derived."""
    outputs = output_tensors(plan)
    found = {
        arg.param: configured_budget(expected.arrays[arg.param], arg, tolerances)
        or exact_budget(plan, case, expected, numerics, arg)
        for arg in outputs
    }
    missing = [arg for arg in outputs if found[arg.param] is None]
    derived = _derived(reference, plan, case, expected, numerics, missing) if missing else {}
    return {name: value if value is not None else derived[name] for name, value in found.items()}


def configured_budget(expected: Array, arg: TensorArg, tolerances: Mapping[str, Tolerance]) -> ErrorBudget | None:
    """Return ``atol + rtol * |expected|``, or None where gpuemu.toml has no tolerance for the output's dtype.

    The correctly rounded result always passes: no kernel can come closer.
    """
    tolerance = tolerances.get(arg.dtype)
    if tolerance is None:
        return None
    wide = expected.astype(np.float64)
    allowed = tolerance.atol + tolerance.rtol * np.abs(np.nan_to_num(wide, posinf=0.0, neginf=0.0))
    if is_float(arg.dtype):
        allowed = np.maximum(allowed, spacing(wide, FORMATS[arg.dtype]) / 2)
    return ErrorBudget(allowed, np.zeros(wide.shape, dtype=np.bool_))


def quick_budgets(plan: Plan, case: Case, expected: ReferenceOutput, numerics: Numerics) -> dict[str, ErrorBudget]:
    """Return the part of the derived budget that costs no further evaluation: what passes it passes."""
    arithmetic = KernelArithmetic.of(numerics, plan, case)
    return {
        arg.param: exact_budget(plan, case, expected, numerics, arg)
        or ErrorBudget(
            _floor(expected.arrays[arg.param], arg, case, arithmetic, traced=True),
            np.zeros(expected.arrays[arg.param].shape, dtype=np.bool_),
        )
        for arg in output_tensors(plan)
    }


def exact_budget(
    plan: Plan, case: Case, expected: ReferenceOutput, numerics: Numerics, arg: TensorArg
) -> ErrorBudget | None:
    """Return what is allowed for an output of a kernel that only moves values; None for any other."""
    allowed = exact_copy_bound(plan, case, expected.arrays, numerics, arg)
    return None if allowed is None else ErrorBudget(allowed, np.zeros(allowed.shape, dtype=np.bool_))


# ---- the derived budget ----------------------------------------------------------------------------------------------


def _derived(
    reference: Reference,
    plan: Plan,
    case: Case,
    expected: ReferenceOutput,
    numerics: Numerics,
    outputs: list[TensorArg],
) -> dict[str, ErrorBudget]:
    arithmetic = KernelArithmetic.of(numerics, plan, case)
    rounded = rounded_operation_runs(reference, plan, case, expected, arithmetic)
    disturbed = perturbed_input_runs(reference, plan, case, expected, arithmetic)
    is_traced = bool(rounded) and all(run.traced for run in rounded)
    tamed = None if case.finite else finite_run(reference, plan, case)
    overflowing = squares_exceed(case, arithmetic.form)
    result = {}
    for arg in outputs:
        exact = expected.arrays[arg.param]
        moved, undecided = spread(exact, [run.arrays[arg.param] for run in disturbed])
        rounding, unsteady = spread(exact, [run.arrays[arg.param] for run in rounded])
        moved, undecided = moved + rounding, undecided | unsteady
        if tamed is not None and exact.dtype.kind == "f":
            undecided |= np.isnan(exact) & ~np.isnan(tamed.arrays[arg.param])
        if not is_float(arg.dtype) and not case.finite:
            undecided[...] = True  # which integer a NaN becomes, or which of equal infinities is the largest, is open
        if not is_float(arg.dtype):
            fractional = np.zeros(exact.shape) if exact.dtype.kind != "f" else (exact != np.rint(exact)) * 1.0
            # A jump is the next integer up or down, or another index altogether: then either may be right.
            largest = float(np.max(np.abs(exact.astype(np.float64)), initial=0.0))
            jumping = moved > max(1.0, 1e-3 * largest)
            result[arg.param] = ErrorBudget(2 * moved + fractional, undecided | jumping)
            continue
        if _is_exact(reference, plan, case, expected, numerics, arithmetic, arg):
            half = spacing(exact.astype(np.float64), FORMATS[arg.dtype]) / 2
            representable = np.abs(exact) <= 2.0 ** FORMATS[arg.dtype].digits
            result[arg.param] = ErrorBudget(np.where(representable, 0.0, half), undecided & False)
            continue
        with np.errstate(invalid="ignore"):
            near_overflow = np.abs(exact) >= arithmetic.narrowest / _NEAR_OVERFLOW
        failing = ~np.isfinite(exact) if expected.overflowed and case.finite else False
        growth = 1.0 if is_traced else _growth(case)
        floor = _floor(exact, arg, case, arithmetic, is_traced)
        allowed = floor + growth * (moved + _row_mean(moved))
        largest = float(np.max(np.abs(exact), initial=0.0, where=np.isfinite(exact)))
        hopeless = (moved >= _HOPELESS * largest) & (largest > 0) & (exact.size > _SMALL_TENSOR)
        result[arg.param] = ErrorBudget(allowed, undecided | overflowing | failing | hopeless, near_overflow)
    return result


def _floor(exact: Array, arg: TensorArg, case: Case, arithmetic: KernelArithmetic, traced: bool) -> Doubles:
    """Return the rounding of the output and of magnitudes that may cancel on the way to it.

    A kernel may use another formula than the reference: ``0.5 x (1 + tanh ..)`` for ``x * sigmoid(..)`` errs by a unit
    roundoff of ``x`` where the result is nearly zero. So the scale is the row's largest output, but no more than the
    largest input where the run was traced, and numbers of the order of one, which formulas are full of.
    """
    if not is_float(arg.dtype):
        return np.zeros(exact.shape)
    wide = np.nan_to_num(exact.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    unit = arithmetic.function_unit if arithmetic.function_unit > 8 * arithmetic.unit else arithmetic.unit
    rows = _row_max(np.abs(wide), 1 if traced else _SMALL_TENSOR)
    given = largest_input(case)
    if traced and given is not None:
        rows = np.minimum(rows, given) if wide.size > _SMALL_TENSOR else np.full(wide.shape, given)
    largest = float(np.max(np.abs(wide), initial=(given or 0.0) if wide.size <= _SMALL_TENSOR else 0.0))
    one = min(max(FLOOR / 2, 2 * min(given or 0.0, 16.0)) * unit, max(1e-3, 32 * unit) * largest)
    growth = 1.0 if traced else _growth(case)
    flushed = 4 * arithmetic.form.tiny
    return OUTPUT_ULPS * spacing(wide, FORMATS[arg.dtype]) + FLOOR * unit * growth * rows + one + flushed


def _growth(case: Case) -> float:
    """How much larger errors may be where a long sum would not have been seen."""
    return 1.0 + float(np.sqrt(max(case.dims.values(), default=1))) / 4


def _is_exact(
    reference: Reference,
    plan: Plan,
    case: Case,
    expected: ReferenceOutput,
    numerics: Numerics,
    arithmetic: KernelArithmetic,
    arg: TensorArg,
) -> bool:
    """Whether every intermediate result of this case is a small integer, so that no order of summation rounds.

    The reference of the absolute values bounds the partial sums. Few elements may be whole by chance.
    """
    exact = expected.arrays[arg.param]
    if not (case.exact and numerics.linear) or arithmetic.form.digits < _EXACT_DIGITS or exact.size < _SMALL_TENSOR:
        return False
    if not bool(np.all(np.isfinite(exact))) or not bool(np.all(exact == np.rint(exact))):
        return False
    if any(float(value) != int(value) for value in case.scalars.values()):
        return False
    absolute = {name: np.abs(value) for name, value in exact_inputs(plan, case).items() if value.dtype.kind != "b"}
    outcome = evaluate(reference, plan, case, {**exact_inputs(plan, case), **absolute}, None)
    limit = 2.0 ** (arithmetic.form.digits - 2)
    bounds = [exact] if outcome is None else [exact, outcome.arrays[arg.param]]
    return outcome is not None and all(float(np.max(np.abs(bound), initial=0.0)) <= limit for bound in bounds)


def _row_max(values: Doubles, least: int = 1) -> Doubles:
    """Return the largest element of each row; a row is as many of the last axes as make ``least`` elements.

    The real and imaginary part of one number are a row of two, and tell little of what they were made from.
    """
    if not values.ndim or not values.size:
        return values
    count = 1
    while count < values.ndim and np.prod(values.shape[-count:]) < least:
        count += 1
    return np.broadcast_to(values.max(axis=tuple(range(-count, 0)), keepdims=True), values.shape)


def _row_mean(values: Doubles) -> Doubles:
    if not values.ndim or not values.size:
        return values
    return np.broadcast_to(values.mean(axis=-1, keepdims=True), values.shape)

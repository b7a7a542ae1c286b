"""How much of an error rounding explains, per element, when nobody configured a tolerance.

The reference is evaluated a few more times: with inputs off by a few unit roundoffs of the kernel's arithmetic, and
with every NumPy operation rounding likewise (:mod:`gpuemu_lsp.engine.oracle.trace`). How far the outputs move is what
a correct kernel may be off; where they become infinite, change sign of infinity or jump, nothing can be said about
that element. To this come two units in the last place of the output, and a floor for cancellation inside the kernel
that the reference's own formula does not have.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, FloatFormat, is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.rng import derive_seed
from gpuemu_lsp.engine.oracle.inputs import input_tensors, output_tensors
from gpuemu_lsp.engine.oracle.reference import (
    Reference,
    ReferenceFailure,
    ReferenceOutput,
    call_with,
    exact_inputs,
)
from gpuemu_lsp.engine.oracle.trace import Arithmetic
from gpuemu_lsp.engine.oracle.ulp import spacing
from gpuemu_lsp.engine.plan.model import Plan, TensorArg
from gpuemu_lsp.engine.project.model import Tolerance

Doubles: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

SPREAD = 8.0
"""Disturbances are this many unit roundoffs: a correct kernel rounds several times on the way to each result."""
OUTPUT_ULPS = 2.0
FLOOR = 8.0
"""The floor, in unit roundoffs of the largest magnitudes around."""
_SLOW_SECONDS = 0.1
_TRACED_SECONDS = 0.2
_TRACED_FACTOR = 10.0
_SMALL_TENSOR = 16
_HOPELESS = 0.25
"""Where rounding moves an element by this share of the largest, as in ``sin(1e8 * x)``, nothing is left to compare."""


@dataclass(frozen=True, slots=True)
class Numerics:
    """How the kernel computes.

    ``precisions`` are the float formats of its arithmetic (``f32``, ``f16``, ...), as its PTX shows; empty for one that
    only moves data. ``approximate`` names executed instructions with a documented error. ``linear`` says it only adds,
    multiplies and moves.
    """

    precisions: frozenset[str] = frozenset()
    approximate: tuple[str, ...] = ()
    linear: bool = False


@dataclass(frozen=True, slots=True)
class Allowance:
    """The absolute error allowed per element of an output, and the elements about which nothing can be said."""

    allowed: Doubles
    undecided: Mask


def allowances(
    reference: Reference,
    plan: Plan,
    case: Case,
    expected: ReferenceOutput,
    numerics: Numerics,
    tolerances: Mapping[str, Tolerance],
) -> dict[str, Allowance]:
    """Return what is allowed for every output: as configured for its dtype, else derived."""
    outputs = output_tensors(plan)
    found = {arg.param: configured(expected.arrays[arg.param], arg, tolerances) for arg in outputs}
    missing = [arg for arg in outputs if found[arg.param] is None]
    derived = _derived(reference, plan, case, expected, numerics, missing) if missing else {}
    return {name: value if value is not None else derived[name] for name, value in found.items()}


def configured(expected: Array, arg: TensorArg, tolerances: Mapping[str, Tolerance]) -> Allowance | None:
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
    return Allowance(allowed, np.zeros(wide.shape, dtype=np.bool_))


def least(plan: Plan, case: Case, expected: ReferenceOutput, numerics: Numerics) -> dict[str, Allowance]:
    """Return the part of the derived budget that costs no further evaluation: what passes it passes."""
    arithmetic = _Arithmetic.of(numerics, plan, case)
    return {
        arg.param: Allowance(
            _floor(expected.arrays[arg.param], arg, case, arithmetic, traced=True),
            np.zeros(expected.arrays[arg.param].shape, dtype=np.bool_),
        )
        for arg in output_tensors(plan)
    }


# ---- the arithmetic of a kernel --------------------------------------------------------------------------------------

_FORMAT_OF = {
    "f64": "float64",
    "f32": "float32",
    "tf32": "tf32",
    "f16": "float16",
    "f16x2": "float16",
    "bf16": "bfloat16",
    "bf16x2": "bfloat16",
    "e4m3": "float8_e4m3fn",
    "e4m3x2": "float8_e4m3fn",
    "e5m2": "float8_e5m2",
    "e5m2x2": "float8_e5m2",
}

_TF32 = FloatFormat(11, FORMATS["float32"].largest, FORMATS["float32"].tiny, 2.0**-136)

_APPROXIMATE = {
    # PTX ISA, floating-point instructions: maximum errors. Only what is worse than a few ulp of fp32 matters here.
    "tanh.approx.f16": 2.0**-10.9,
    "tanh.approx.bf16": 2.0**-8,
    "tanh.approx": 2.0**-10.9,
    "sin.approx": 2.0**-20,
    "cos.approx": 2.0**-20,
    "ex2.approx.f16": 2.0**-9.9,
    "ex2.approx.atype.f16": 2.0**-9.9,
    "ex2.approx.ftz.bf16": 2.0**-7,
    "lg2.approx": 2.0**-21,
}


@dataclass(frozen=True, slots=True)
class _Arithmetic:
    """Unit roundoff of the operations and of functions, and the format whose range applies."""

    unit: float
    function_unit: float
    form: FloatFormat

    @staticmethod
    def of(numerics: Numerics, plan: Plan, case: Case) -> _Arithmetic:
        names = {_FORMAT_OF.get(name, name) for name in numerics.precisions}
        forms = [_TF32 if name == "tf32" else FORMATS[name] for name in names if name == "tf32" or name in FORMATS]
        if not forms:
            forms = [FORMATS["float64" if plan.dtype == "float64" else "float32"]]
        digits = min(form.digits for form in forms)
        # A half-precision sum that overflows on ordinary values is what a user wants to hear of: fp32's range applies,
        # unless the values are so large that their squares leave the smaller one.
        narrow = min(forms, key=lambda form: form.largest)
        wide = FORMATS["float64" if narrow.digits == 53 else "float32"]
        range_of = narrow if narrow.largest > wide.largest or _squares_exceed(case, narrow) else wide
        form = FloatFormat(digits, range_of.largest, range_of.tiny, range_of.smallest)
        errors = [
            error
            for executed in numerics.approximate
            for prefix, error in _APPROXIMATE.items()
            if executed.startswith(prefix)
        ]
        return _Arithmetic(form.roundoff, max((form.roundoff, *errors)), form)


# ---- the derived budget ----------------------------------------------------------------------------------------------


def _derived(
    reference: Reference,
    plan: Plan,
    case: Case,
    expected: ReferenceOutput,
    numerics: Numerics,
    outputs: list[TensorArg],
) -> dict[str, Allowance]:
    arithmetic = _Arithmetic.of(numerics, plan, case)
    rounded = _rounded_runs(reference, plan, case, expected, arithmetic)
    disturbed = _disturbed_runs(reference, plan, case, expected, arithmetic)
    is_traced = bool(rounded) and all(run.traced for run in rounded)
    overflowing = _squares_exceed(case, arithmetic.form)
    result = {}
    for arg in outputs:
        exact = expected.arrays[arg.param]
        spread, undecided = _spread(exact, [run.arrays[arg.param] for run in disturbed])
        rounding, unsteady = _spread(exact, [run.arrays[arg.param] for run in rounded])
        spread, undecided = spread + rounding, undecided | unsteady
        if not is_float(arg.dtype) and not case.finite:
            undecided[...] = True  # which integer a NaN becomes, or which of equal infinities is the largest, is open
        if not is_float(arg.dtype):
            fractional = np.zeros(exact.shape) if exact.dtype.kind != "f" else (exact != np.rint(exact)) * 1.0
            # A jump is the next integer up or down, or another index altogether: then either may be right.
            largest = float(np.max(np.abs(exact.astype(np.float64)), initial=0.0))
            jumping = spread > max(1.0, 1e-3 * largest)
            result[arg.param] = Allowance(2 * spread + fractional, undecided | jumping)
            continue
        if _is_exact(reference, plan, case, expected, numerics, arithmetic, arg):
            half = spacing(exact.astype(np.float64), FORMATS[arg.dtype]) / 2
            representable = np.abs(exact) <= 2.0 ** FORMATS[arg.dtype].digits
            result[arg.param] = Allowance(np.where(representable, 0.0, half), undecided & False)
            continue
        with np.errstate(invalid="ignore"):
            near_overflow = np.abs(exact) >= arithmetic.form.largest / 16
        failing = ~np.isfinite(exact) if expected.overflowed and case.finite else False
        growth = 1.0 if is_traced else _growth(case)
        floor = _floor(exact, arg, case, arithmetic, is_traced)
        allowed = floor + growth * (spread + _row_mean(spread))
        hopeless = spread >= _HOPELESS * np.max(np.abs(exact), initial=0.0, where=np.isfinite(exact))
        hopeless &= exact.size > _SMALL_TENSOR
        result[arg.param] = Allowance(allowed, undecided | overflowing | near_overflow | failing | hopeless)
    return result


def _rounded_runs(
    reference: Reference, plan: Plan, case: Case, expected: ReferenceOutput, arithmetic: _Arithmetic
) -> list[ReferenceOutput]:
    """Evaluate with the rounding of every operation, drawn a few times; not where that would take long.

    One draw is not enough: where two errors decide a result (the two largest scores of a softmax) they may cancel.
    """
    if expected.seconds > _SLOW_SECONDS:
        return []
    noises = [_noise(case, arithmetic, sign, draw) for draw, sign in ((0, 1.0), (0, -1.0), (1, 1.0), (2, 1.0))]
    runs = []
    for noise in noises:
        noise.ends = time.monotonic() + _TRACED_SECONDS + _TRACED_FACTOR * expected.seconds
        runs.append(_evaluate(reference, plan, case, exact_inputs(plan, case), noise))
        if runs[-1] is None:
            break
    return [run for run in runs if run is not None]


def _disturbed_runs(
    reference: Reference, plan: Plan, case: Case, expected: ReferenceOutput, arithmetic: _Arithmetic
) -> list[ReferenceOutput]:
    """Evaluate with inputs that are off: each element at random, and all of a tensor's upwards; both also reversed.

    Random errors of a long sum cancel; the directed ones show what its terms amount to.
    """
    runs = []
    for directed in (False,) if expected.seconds > _SLOW_SECONDS else (False, True):
        for sign in (1.0, -1.0):
            tensors = _disturbed_inputs(plan, case, _noise(case, arithmetic, sign), directed)
            runs.append(_evaluate(reference, plan, case, tensors, None))
            if not directed:
                runs.append(_evaluate(reference, plan, case, _without_ties_at_zero(plan, case, tensors, sign), None))
    runs.append(_evaluate(reference, plan, case, _flushed_inputs(plan, case), None))
    return [run for run in runs if run is not None]


def _noise(case: Case, arithmetic: _Arithmetic, sign: float, draw: int = 0) -> Arithmetic:
    seed = derive_seed(case.key.seed, f"budget_{draw}")
    return Arithmetic(SPREAD * arithmetic.unit, SPREAD * arithmetic.function_unit, arithmetic.form, seed, sign)


def _evaluate(
    reference: Reference, plan: Plan, case: Case, tensors: dict[str, Array] | None, noise: Arithmetic | None
) -> ReferenceOutput | None:
    """Evaluate, traced or plainly; None where the reference cannot take it, or where there is nothing to evaluate."""
    if tensors is None:
        return None
    try:
        result = call_with(reference, plan, case, tensors, noise)
    except ReferenceFailure:
        return None
    if noise is None:
        return result
    return replace(result, traced=result.traced and noise.leaks == 0 and noise.operations > 0)


def _disturbed_inputs(plan: Plan, case: Case, noise: Arithmetic, directed: bool) -> dict[str, Array]:
    tensors = exact_inputs(plan, case)
    direction = 1.0
    for arg in input_tensors(plan):
        if not is_float(arg.dtype):
            continue
        values = tensors[arg.param]
        errors = direction if directed else noise.errors(values.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            tensors[arg.param] = values + np.abs(values) * errors * (noise.sign * noise.unit)
        direction = -direction if noise.errors((1,))[0] > 0 else direction
    return tensors


def _without_ties_at_zero(
    plan: Plan, case: Case, disturbed: Mapping[str, Array], sign: float
) -> dict[str, Array] | None:
    """Return the inputs with zeros told apart, for outputs that are indices: which of equal values is meant is open.

    Other equal values are told apart by the disturbances, which are relative. None where it cannot matter.
    """
    zeros = [arg.param for arg in input_tensors(plan) if is_float(arg.dtype) and (case.tensors[arg.param] == 0).any()]
    if not zeros or all(is_float(arg.dtype) for arg in output_tensors(plan)):
        return None
    tensors = {name: value.copy() for name, value in disturbed.items()}
    for name in zeros:
        order = np.random.default_rng(case.key.seed).standard_normal(tensors[name].shape)
        tensors[name] = np.where(tensors[name] == 0, sign * 1e-30 * order, tensors[name])
    return tensors


def _flushed_inputs(plan: Plan, case: Case) -> dict[str, Array] | None:
    """Return the inputs with fp32 subnormals flushed to zero, as ``.ftz`` does; None if there are none."""
    tensors = exact_inputs(plan, case)
    found = False
    for arg in input_tensors(plan):
        if is_float(arg.dtype) and arg.dtype != "float64":
            values = tensors[arg.param]
            tiny = (np.abs(values) < FORMATS["float32"].tiny) & (values != 0)
            if tiny.any():
                values[tiny] = 0.0
                found = True
    return tensors if found else None


def _spread(exact: Array, runs: list[Array]) -> tuple[Doubles, Mask]:
    """Return how far the runs lie from the exact result, and where finite and non-finite results meet."""
    wide = exact.astype(np.float64)
    finite = np.isfinite(wide)
    spread = np.zeros(wide.shape)
    undecided = np.zeros(wide.shape, dtype=np.bool_)
    for run in runs:
        other = run.astype(np.float64)
        both = finite & np.isfinite(other)
        undecided |= (finite != np.isfinite(other)) | (~finite & ~np.isnan(wide) & (wide != other))
        np.maximum(spread, np.where(both, np.abs(np.where(both, other - wide, 0.0)), 0.0), out=spread)
    return spread, undecided


def _floor(exact: Array, arg: TensorArg, case: Case, arithmetic: _Arithmetic, traced: bool) -> Doubles:
    """Return the rounding of the output and of magnitudes that may cancel on the way to it.

    A kernel may use another formula than the reference: ``0.5 x (1 + tanh ..)`` for ``x * sigmoid(..)`` errs by a unit
    roundoff of ``x`` where the result is nearly zero. So the scale is the row's largest output, but no more than the
    largest input where the run was traced, and numbers of the order of one, which formulas are full of.
    """
    if not is_float(arg.dtype):
        return np.zeros(exact.shape)
    wide = np.nan_to_num(exact.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    unit = arithmetic.function_unit if arithmetic.function_unit > 8 * arithmetic.unit else arithmetic.unit
    rows = _row_max(np.abs(wide))
    largest_input = _largest_input(case)
    if traced and largest_input is not None:
        rows = np.minimum(rows, largest_input) if wide.size > _SMALL_TENSOR else np.full(wide.shape, largest_input)
    largest = float(np.max(np.abs(wide), initial=(largest_input or 0.0) if wide.size <= _SMALL_TENSOR else 0.0))
    one = min(max(FLOOR / 2, 2 * min(largest_input or 0.0, 16.0)) * unit, max(1e-3, 32 * unit) * largest)
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
    arithmetic: _Arithmetic,
    arg: TensorArg,
) -> bool:
    """Whether every intermediate result of this case is a small integer, so that no order of summation rounds.

    The reference of the absolute values bounds the partial sums. Few elements may be whole by chance.
    """
    exact = expected.arrays[arg.param]
    if not (case.exact and numerics.linear) or arithmetic.form.digits < 24 or exact.size < _SMALL_TENSOR:
        return False
    if not bool(np.all(np.isfinite(exact))) or not bool(np.all(exact == np.rint(exact))):
        return False
    if any(float(value) != int(value) for value in case.scalars.values()):
        return False
    absolute = {name: np.abs(value) for name, value in exact_inputs(plan, case).items() if value.dtype.kind != "b"}
    outcome = _evaluate(reference, plan, case, {**exact_inputs(plan, case), **absolute}, None)
    limit = 2.0 ** (arithmetic.form.digits - 2)
    bounds = [exact] if outcome is None else [exact, outcome.arrays[arg.param]]
    return outcome is not None and all(float(np.max(np.abs(bound), initial=0.0)) <= limit for bound in bounds)


def _squares_exceed(case: Case, form: FloatFormat) -> bool:
    """Whether inputs are so large that their squares leave a format's range: any kernel may overflow then."""
    largest = _largest_input(case)
    return largest is not None and largest > float(np.sqrt(form.largest)) / 4


def _largest_input(case: Case) -> float | None:
    """Return the largest finite magnitude of the float inputs, or None without any."""
    found = None
    for values in case.tensors.values():
        if values.dtype.kind in "biu" or not values.size:
            continue
        magnitude = np.abs(values.astype(np.float64))
        own = float(np.max(magnitude, initial=0.0, where=np.isfinite(magnitude)))
        found = own if found is None else max(found, own)
    return found


def _row_max(values: Doubles) -> Doubles:
    if not values.ndim or not values.size:
        return values
    return np.broadcast_to(values.max(axis=-1, keepdims=True), values.shape)


def _row_mean(values: Doubles) -> Doubles:
    if not values.ndim or not values.size:
        return values
    return np.broadcast_to(values.mean(axis=-1, keepdims=True), values.shape)

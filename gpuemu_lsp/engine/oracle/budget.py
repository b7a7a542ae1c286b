"""Error budget: the error per output element that rounding explains.

It is the tolerance of every output for which gpuemu.toml sets none. This page derives it.


The problem
-----------
A kernel computes ``y`` in fp32, fp16 or less; the user's reference computes the same function in fp64. Both are right,
and they differ. ``allclose`` with one ``rtol`` and ``atol`` for all elements cannot separate this difference from a
bug. The forward error of an element is about its condition number times the unit roundoff ``u`` (Higham, section 1.6),
and condition numbers within one tensor differ by orders of magnitude: of ``gelu(x)``, elements near zero are well
conditioned, those for ``x = -4`` lose most digits to ``1 + tanh(...)``. A tolerance that passes the second hides
wrong constants in the first. So the budget is a number per element, and it is measured on the reference itself, on the
inputs of the case.


Model
-----
Each operation of the kernel obeys the standard model (Higham, section 2.2)

    fl(a op b) = (a op b) (1 + d),    |d| <= u

with ``u`` the unit roundoff of the narrowest format in the kernel's PTX (:class:`KernelArithmetic`). Mathematical
functions have a larger bound: four times that, or the PTX ISA's maximum error for an approximate instruction that was
executed. fp64 rounding of the reference is neglected; a reference that computes in less is reported.

The order of operations in the kernel is unknown, and so is which of several equivalent formulas it evaluates. The model
therefore bounds no particular program. It asks how far the reference's own outputs move when its inputs and operations
carry errors of that size (Parker's Monte Carlo Arithmetic), and adds terms for what the reference's formula does not
show.


Sources of error and their terms
--------------------------------
``moved``, rounding of inputs and intermediate results
    The largest distance from the exact output over all perturbed evaluations (:mod:`.perturb`). Perturbations have a
    relative size of ``SPREAD * u``, between half of it and all of it, of random sign. Inputs are perturbed at random
    and all in one direction; operations in four draws. Sums of ``n`` terms get ``u (1 + sqrt(n) / 4)`` times the sum
    of their magnitudes: independent errors grow with the square root (Higham and Mary, 2019), the worst case ``n u``
    does not occur. Errors that do not average out, of equal terms and of terms that are absorbed, are added apart
    (:mod:`.rounding`). ``SPREAD`` is 8 because so few draws underestimate the largest error, and because kernels round
    more often than the reference's operations count. The row's mean of ``moved`` is added to each element, as an
    element may happen to be insensitive to the errors that were drawn.

``OUTPUT_ULPS * ulp(y)``, rounding of the output
    Two units in the last place of the output's format, which may be narrower than the arithmetic.

``FLOOR * u * scale``, cancellation in another formula
    ``x * sigmoid(x)`` written as ``0.5 x (1 + tanh(x / 2))`` has an error of a unit roundoff of ``x`` where the result
    is nearly zero, and no perturbation of the first formula shows it. ``scale`` is the largest output of the element's
    row, but not more than the largest input of a traced run.

``one``, cancellation of constants
    Formulas are full of numbers of the order of one (``1 - p``, ``log(1 + x)``), whose rounding is absolute. The term
    is limited to about a thousandth of the largest output, so that it cannot hide an output of small magnitude.

``4 * tiny``, underflow
    ``.ftz`` instructions flush subnormals, in inputs, in results, and on the way.

With ``g = 1`` for a traced run and ``1 + sqrt(n) / 4`` otherwise, since an untraced run does not show a long sum,

    allowed = OUTPUT_ULPS * ulp(y) + FLOOR * u * g * scale + one + 4 * tiny + g * (moved + row_mean(moved))


Sums in narrow formats
----------------------
With ``u`` of the narrowest format, a long sum in fp16 is allowed the error that it causes, though inputs and outputs in
fp16 require no more than their own rounding. Where partial sums are narrow (:mod:`gpuemu_lsp.engine.lint.narrow_sums`),
outputs within their budget are compared a second time, with ``u`` of sums in fp32 (:mod:`.judge`): a difference is a
warning, since the user may have chosen the narrow sum.


Where the budget is infinite
----------------------------
A finite element that is another one with a number in place of a NaN of the inputs depends on how a NaN compares, as in
a sort: any finite value is accepted there, and NaN and infinity are not.


Elements that are not compared
------------------------------
No budget is finite where a perturbation turns a number into infinity or NaN, where inputs are so large that any kernel
may overflow, or where the output moves by a quarter of the largest one (``sin(1e8 * x)``). Such elements are
*undecided*. A check in which all elements of all cases are undecided reports that nothing was verified.


Where the budget is zero
------------------------
* Kernels that only copy and compare values (:mod:`.copies_only`).
* Linear kernels on small integers: if every partial sum, bounded by the reference of the absolute values, fits the
  significand, no order of summation rounds. The fuzzer draws such cases on purpose, since on them a tensor-core GEMM
  must be exact to the last bit.
* Integer outputs, except where a perturbation changes the reference's integer: then either neighbour is right, and an
  index that jumps is undecided.


Limits
------
The budget is an estimate, not a proof: interval arithmetic would give guaranteed bounds, which for sums and products of
practical length are too wide to detect anything. It can be too small for a kernel whose algorithm is less stable than
the reference's; the one-pass variance is covered (:func:`~.trace.magnitude_of`), others are not. It hides every bug
smaller than about eight unit roundoffs of the row's largest element. Values that leave NumPy are not perturbed,
and in-place operators contribute no error of their own. The tail of the errors is long where one error decides many
results: of attention with large scores, 16 draws in place of four give a budget that is five times larger for a tenth
of the elements.


References
----------
N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002. D. S. Parker, Monte Carlo
Arithmetic, UCLA CSD-970002, 1997. N. J. Higham and T. Mary, A New Approach to Probabilistic Rounding Error Analysis,
SIAM J. Sci. Comput. 41(5), 2019. C. Denis, P. de Oliveira Castro, E. Petit, Verificarlo, ARITH 2016.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.oracle.arithmetic import KernelArithmetic, largest_input, spacing, squares_exceed
from gpuemu_lsp.engine.oracle.copies_only import exact_copy_bound
from gpuemu_lsp.engine.oracle.inputs import compared_tensors
from gpuemu_lsp.engine.oracle.perturb import (
    evaluate,
    finite_run,
    perturbed_input_runs,
    rounded_operation_runs,
    runs_without_nan,
    spread,
)
from gpuemu_lsp.engine.oracle.reference import ReferenceEvaluation, exact_inputs
from gpuemu_lsp.engine.plan.model import TensorArg
from gpuemu_lsp.engine.project.model import Tolerance

Doubles: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

OUTPUT_ULPS = 2.0
FLOOR = 8.0
"""Unit roundoffs of the row's largest magnitude that are always allowed."""
_NEAR_OVERFLOW = 32.0
"""Partial results may exceed the result by this factor, and overflow though the result does not."""
_SMALL_TENSOR = 16
"""Fewer elements than this say little about the magnitudes inside the kernel."""
_EXACT_DIGITS = 21
"""Significand of sums on tensor cores; fp32 has more. Narrower formats cannot hold sums of small integers."""
_HOPELESS = 0.25
"""An element that rounding moves by this share of the largest output is not compared."""


@dataclass(frozen=True, slots=True)
class ErrorBudget:
    """Allowed absolute error per element of one output, and the elements that cannot be compared.

    All arrays have the output's shape. ``may_overflow`` marks elements so close to the end of the kernel's range that
    infinity and NaN are accepted.
    """

    allowed: Doubles
    undecided: Mask
    may_overflow: Mask | None = None


def error_budgets(evaluation: ReferenceEvaluation, tolerances: Mapping[str, Tolerance]) -> dict[str, ErrorBudget]:
    """Return the budget of every output by parameter name: as configured for its dtype, otherwise derived."""
    outputs = compared_tensors(evaluation.plan)
    found = {
        arg.param: configured_budget(evaluation.expected.arrays[arg.param], arg, tolerances)
        or exact_budget(evaluation, arg)
        for arg in outputs
    }
    missing = [arg for arg in outputs if found[arg.param] is None]
    derived = _derived(evaluation, missing) if missing else {}
    return {name: value if value is not None else derived[name] for name, value in found.items()}


def configured_budget(expected: Array, arg: TensorArg, tolerances: Mapping[str, Tolerance]) -> ErrorBudget | None:
    """Return ``atol + rtol * |expected|`` per element, None where gpuemu.toml has no tolerance for the output's dtype.

    It is at least half an ulp: the correctly rounded result passes any tolerance.
    """
    tolerance = tolerances.get(arg.dtype)
    if tolerance is None:
        return None
    wide = expected.astype(np.float64)
    allowed = tolerance.atol + tolerance.rtol * np.abs(np.nan_to_num(wide, posinf=0.0, neginf=0.0))
    if is_float(arg.dtype):
        allowed = np.maximum(allowed, spacing(wide, FORMATS[arg.dtype]) / 2)
    return ErrorBudget(allowed, np.zeros(wide.shape, dtype=np.bool_))


def quick_budgets(evaluation: ReferenceEvaluation) -> dict[str, ErrorBudget]:
    """Return the part of the derived budgets that needs no further evaluation of the reference.

    It is a lower bound of the budget, except for exact cases, whose budget is zero.
    """
    plan, case, expected = evaluation.plan, evaluation.case, evaluation.expected
    arithmetic = KernelArithmetic.of(evaluation.numerics, plan, case)
    return {
        arg.param: exact_budget(evaluation, arg)
        or ErrorBudget(
            _floor(expected.arrays[arg.param], arg, case, arithmetic, traced=True),
            np.zeros(expected.arrays[arg.param].shape, dtype=np.bool_),
        )
        for arg in compared_tensors(plan)
    }


def exact_budget(evaluation: ReferenceEvaluation, arg: TensorArg) -> ErrorBudget | None:
    """Return the budget of an output of a kernel that only copies values, None for any other kernel."""
    plan, case, expected = evaluation.plan, evaluation.case, evaluation.expected
    allowed = exact_copy_bound(plan, case, expected.arrays, evaluation.numerics, arg)
    return None if allowed is None else ErrorBudget(allowed, np.zeros(allowed.shape, dtype=np.bool_))


# ---- the derived budget ----------------------------------------------------------------------------------------------


def _derived(evaluation: ReferenceEvaluation, outputs: list[TensorArg]) -> dict[str, ErrorBudget]:
    plan, case, expected = evaluation.plan, evaluation.case, evaluation.expected
    arithmetic = KernelArithmetic.of(evaluation.numerics, plan, case)
    rounded = rounded_operation_runs(evaluation, arithmetic)
    perturbed = perturbed_input_runs(evaluation, arithmetic)
    is_traced = bool(rounded) and all(run.traced for run in rounded)
    finite = None if case.finite else finite_run(evaluation)
    ordered = () if case.finite else runs_without_nan(evaluation)
    overflowing = squares_exceed(case, arithmetic.form)
    result = {}
    for arg in outputs:
        exact = expected.arrays[arg.param]
        moved, undecided = spread(exact, [run.arrays[arg.param] for run in perturbed])
        rounding, unsteady = spread(exact, [run.arrays[arg.param] for run in rounded])
        moved, undecided = moved + rounding, undecided | unsteady
        if finite is not None and exact.dtype.kind == "f":
            undecided |= np.isnan(exact) & ~np.isnan(finite.arrays[arg.param])
        if not is_float(arg.dtype):
            result[arg.param] = _integer_budget(exact, moved, undecided, case)
            continue
        if _is_exact(evaluation, arithmetic, arg):
            # Integers beyond the output's significand are rounded once, when they are stored.
            half = spacing(exact.astype(np.float64), FORMATS[arg.dtype]) / 2
            representable = np.abs(exact) <= 2.0 ** FORMATS[arg.dtype].digits
            result[arg.param] = ErrorBudget(np.where(representable, 0.0, half), undecided & False)
            continue
        with np.errstate(invalid="ignore"):
            # The output's format and not the narrowest of the arithmetic: a sum in fp16 that overflows, of an output in
            # fp32, is a bug to report. `form` has the narrow range where the inputs themselves are too large for it.
            limit = min(FORMATS[arg.dtype].largest, arithmetic.form.largest)
            near_overflow = np.abs(exact) >= limit / _NEAR_OVERFLOW
        # A reference that overflows fp64 on finite inputs has computed infinities that a kernel with another formula
        # avoids, as softmax without the subtraction of the maximum does.
        failing = ~np.isfinite(exact) if expected.overflowed and case.finite else False
        # Of a script in a process of its own the rounding of intermediate results, such as the argument of an
        # exponential, may not be seen: not every script can be traced, and none reports what of it was.
        script = evaluation.reference.separate
        growth = 1.0 if is_traced else _growth(case) * (_SCRIPT if script else 1.0)
        floor = _floor(exact, arg, case, arithmetic, is_traced)
        # The mean of the row: random errors may leave one element unmoved that others of its kind show to be sensitive.
        allowed = floor + growth * (moved + _row_mean(moved))
        for run in ordered:
            allowed = np.where(run.arrays[arg.param] == exact, allowed, np.inf)
        largest = float(np.max(np.abs(exact), initial=0.0, where=np.isfinite(exact)))
        hopeless = (moved >= _HOPELESS * largest) & (largest > 0) & (exact.size > _SMALL_TENSOR)
        result[arg.param] = ErrorBudget(allowed, undecided | overflowing | failing | hopeless, near_overflow)
    return result


def _integer_budget(exact: Array, moved: Doubles, undecided: Mask, case: Case) -> ErrorBudget:
    """Return the budget of an integer output from the distance its perturbed values moved."""
    if not case.finite:
        # The integer that a NaN converts to, and which of equal infinities is the largest, are unspecified.
        undecided[...] = True
    # A reference that returns fractions for an integer output leaves the direction of rounding open.
    fractional = np.zeros(exact.shape) if exact.dtype.kind != "f" else (exact != np.rint(exact)) * 1.0
    # A rounded value moves to a neighbouring integer, which the budget allows; an index moves anywhere, and then no
    # distance is meaningful.
    largest = float(np.max(np.abs(exact.astype(np.float64)), initial=0.0))
    jumping = moved > max(1.0, 1e-3 * largest)
    return ErrorBudget(2 * moved + fractional, undecided | jumping)


def _floor(exact: Array, arg: TensorArg, case: Case, arithmetic: KernelArithmetic, traced: bool) -> Doubles:
    """Return the terms of the budget that do not depend on perturbed evaluations; zero for integer outputs."""
    if not is_float(arg.dtype):
        return np.zeros(exact.shape)
    wide = np.nan_to_num(exact.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
    # The factor FLOOR covers ordinary functions, but not the error of an approximate instruction.
    unit = arithmetic.function_unit if arithmetic.function_unit > 8 * arithmetic.unit else arithmetic.unit
    rows = _row_max(np.abs(wide), 1 if traced else _SMALL_TENSOR)
    given = largest_input(case)
    if traced and given is not None:
        # Outputs larger than every input come from sums and products, whose errors the traced runs measure. A small
        # output, such as one loss value, says nothing about the magnitudes it was computed from: the inputs do.
        rows = np.minimum(rows, given) if wide.size > _SMALL_TENSOR else np.full(wide.shape, given)
    largest = float(np.max(np.abs(wide), initial=(given or 0.0) if wide.size <= _SMALL_TENSOR else 0.0))
    one = min(max(FLOOR / 2, 2 * min(given or 0.0, 16.0)) * unit, max(1e-3, 32 * unit) * largest)
    growth = 1.0 if traced else _growth(case)
    flushed = 4 * arithmetic.form.tiny
    return OUTPUT_ULPS * spacing(wide, FORMATS[arg.dtype]) + FLOOR * unit * growth * rows + one + flushed


_SCRIPT = 8.0
"""Factor by which the rounding of intermediate results may exceed that of the inputs."""


def _growth(case: Case) -> float:
    """Return the factor by which a sum over the longest dim may enlarge errors that an untraced run does not show."""
    return 1.0 + float(np.sqrt(max(case.dims.values(), default=1))) / 4


def _is_exact(evaluation: ReferenceEvaluation, arithmetic: KernelArithmetic, arg: TensorArg) -> bool:
    """Return whether every intermediate result of this case is a small integer, so that no order of summation rounds.

    The reference evaluated on absolute values bounds all partial sums.
    """
    plan, case = evaluation.plan, evaluation.case
    exact = evaluation.expected.arrays[arg.param]
    # A few elements may be integers by chance, of a kernel that also computes fractions.
    if exact.size < _SMALL_TENSOR or arithmetic.form.digits < _EXACT_DIGITS:
        return False
    if not (case.exact and evaluation.numerics.linear):
        return False
    if not bool(np.all(np.isfinite(exact))) or not bool(np.all(exact == np.rint(exact))):
        return False
    if any(float(value) != int(value) for value in case.scalars.values()):
        return False
    absolute = {name: np.abs(value) for name, value in exact_inputs(plan, case).items() if value.dtype.kind != "b"}
    outcome = evaluate(evaluation, {**exact_inputs(plan, case), **absolute})
    # Two digits to spare: negative scalars and constants of the kernel are not made positive.
    limit = 2.0 ** (arithmetic.form.digits - 2)
    bounds = [exact] if outcome is None else [exact, outcome.arrays[arg.param]]
    return outcome is not None and all(float(np.max(np.abs(bound), initial=0.0)) <= limit for bound in bounds)


def _row_max(values: Doubles, least: int = 1) -> Doubles:
    """Return the largest element of each row; a row is as many of the last axes as have ``least`` elements.

    The two parts of one complex number, for instance, are too short a row to show the magnitudes they come from.
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

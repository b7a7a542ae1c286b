"""Perturbed evaluations of the reference: other inputs within rounding, and rounding of every operation."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import replace
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.fuzz.rng import derive_seed
from gpuemu_lsp.engine.oracle.arithmetic import KernelArithmetic
from gpuemu_lsp.engine.oracle.inputs import compared_tensors, input_tensors
from gpuemu_lsp.engine.oracle.outputs import ReferenceFailure, ReferenceOutput
from gpuemu_lsp.engine.oracle.reference import ReferenceEvaluation, call_with, exact_inputs
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic
from gpuemu_lsp.engine.plan.model import Plan

Doubles: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

SPREAD = 8.0
"""Size of a perturbation in unit roundoffs. A correct kernel rounds several times on the way to each result, and a few
random draws must show what the worst of them does."""
_DRAWS = ((0, 1.0), (0, -1.0), (1, 1.0), (2, 1.0))
"""Number and sign of the errors of each traced run. One is not enough: where two errors decide a result, as those of
the two largest scores of a softmax do, they may cancel in it."""
_SPARE_DRAWS = ((3, 1.0), (4, 1.0))
"""In place of draws in which the reference fails, as one that rejects a probability above one may."""
_TRACED_SECONDS = 5.0
_TRACED_FACTOR = 50.0
"""A traced run may take this many times as much processor time as a plain one, and five seconds. What the run does is
limited by counts of operations; this limit is for operations that are slow in themselves."""


def rounded_operation_runs(evaluation: ReferenceEvaluation, arithmetic: KernelArithmetic) -> list[ReferenceOutput]:
    """Evaluate the reference with rounding errors in every operation, in four draws.

    All four also for a slow reference: in attention the largest error shows in one draw of several, and two draws gave
    a sixtieth of the budget of four. If fewer can be made, the runs do not count as traced.
    """
    plan, case = evaluation.plan, evaluation.case
    runs = list[ReferenceOutput]()
    for draw, sign in (*_DRAWS, *_SPARE_DRAWS):
        noise = _noise(case, arithmetic, sign, draw)
        noise.ends = time.thread_time() + _TRACED_SECONDS + _TRACED_FACTOR * evaluation.expected.seconds
        run = evaluate(evaluation, exact_inputs(plan, case), noise)
        runs += [] if run is None else [run]
        # A reference that cannot be traced once cannot be traced again.
        if not runs or len(runs) == len(_DRAWS):
            break
    return runs if len(runs) == len(_DRAWS) else [replace(run, traced=False) for run in runs]


def perturbed_input_runs(evaluation: ReferenceEvaluation, arithmetic: KernelArithmetic) -> list[ReferenceOutput]:
    """Evaluate the reference with perturbed inputs: random errors per element, and all errors in one direction.

    Random errors of a long sum cancel; errors in one direction show the sum of the terms' sensitivities. Each is also
    evaluated with the opposite sign.
    """
    plan, case = evaluation.plan, evaluation.case
    runs = []
    for directed in (False, True):
        for sign in (1.0, -1.0):
            tensors = _perturbed_inputs(plan, case, _noise(case, arithmetic, sign), directed)
            # Before the call, in which the reference may change its inputs.
            untied = None if directed else _without_zero_ties(plan, case, tensors, sign)
            runs += [evaluate(evaluation, tensors), evaluate(evaluation, untied)]
    # The following return None, and cost nothing, for most kernels.
    for sign in (1.0, -1.0):
        runs.append(evaluate(evaluation, _ramped_inputs(plan, case, sign * SPREAD * arithmetic.unit)))
    runs.append(evaluate(evaluation, _flushed_inputs(plan, case)))
    return [run for run in runs if run is not None]


def finite_run(evaluation: ReferenceEvaluation) -> ReferenceOutput | None:
    """Evaluate the reference with finite numbers in place of infinities; None if the inputs contain none.

    A NaN that then disappears is due to the formula, as ``inf - inf``: another correct formula need not produce it.
    """
    plan, case = evaluation.plan, evaluation.case
    tensors = exact_inputs(plan, case)
    floats = [arg.param for arg in input_tensors(plan) if is_float(arg.dtype) and np.isinf(tensors[arg.param]).any()]
    for name in floats:
        values = tensors[name]
        tensors[name] = np.where(np.isinf(values), np.sign(values), values)
    return evaluate(evaluation, tensors) if floats else None


def runs_without_nan(evaluation: ReferenceEvaluation) -> tuple[ReferenceOutput, ...]:
    """Evaluate the reference with a number below, and one above all others, in place of NaN; empty if there is none.

    A finite result that differs depends on the place of a NaN in an order of numbers, which is a matter of convention.
    """
    plan, case = evaluation.plan, evaluation.case
    runs = []
    for sign in (-1.0, 1.0):
        tensors, replaced = exact_inputs(plan, case), False
        for arg in input_tensors(plan):
            missing = np.isnan(tensors[arg.param]) if is_float(arg.dtype) else np.zeros(0, dtype=np.bool_)
            if missing.any():
                numbers = tensors[arg.param]
                beyond = 1.0 + np.max(np.abs(numbers), initial=0.0, where=np.isfinite(numbers))
                tensors[arg.param], replaced = np.where(missing, sign * beyond, numbers), True
        runs.append(evaluate(evaluation, tensors) if replaced else None)
    return tuple(run for run in runs if run is not None)


def evaluate(
    evaluation: ReferenceEvaluation, tensors: dict[str, Array] | None, noise: MonteCarloArithmetic | None = None
) -> ReferenceOutput | None:
    """Evaluate the reference on ``tensors``, traced with ``noise``; None without tensors or if the reference fails."""
    if tensors is None:
        return None
    # A reference may reject perturbed values, such as an index or a probability outside its range. That says nothing
    # about the kernel.
    try:
        result = call_with(evaluation.reference, evaluation.plan, evaluation.case, tensors, noise)
    except ReferenceFailure:
        return None
    if noise is None:
        return result
    return replace(result, traced=result.traced and noise.leaks == 0 and noise.operations > 0)


def _noise(case: Case, arithmetic: KernelArithmetic, sign: float, draw: int = 0) -> MonteCarloArithmetic:
    # Seeded by the case: the budget of a case is the same in every run and on every machine.
    seed = derive_seed(case.key.seed, f"budget_{draw}")
    unit, function_unit = SPREAD * arithmetic.unit, SPREAD * arithmetic.function_unit
    return MonteCarloArithmetic(unit, function_unit, arithmetic.form, seed, sign)


def _perturbed_inputs(plan: Plan, case: Case, noise: MonteCarloArithmetic, directed: bool) -> dict[str, Array]:
    tensors = exact_inputs(plan, case)
    direction = 1.0
    for arg in input_tensors(plan):
        if not is_float(arg.dtype):
            continue
        values = tensors[arg.param]
        errors = direction if directed else noise.errors(values.shape)
        with np.errstate(invalid="ignore", over="ignore"):
            moved = values + np.abs(values) * errors * (noise.sign * noise.unit)
            # An infinity has no neighbour: infinity less infinity would be NaN.
            tensors[arg.param] = np.where(np.isinf(values), values, moved)
        # Two factors of a product that move in the same direction add their effects, of a quotient cancel them: the
        # direction changes at random from tensor to tensor.
        direction = -direction if noise.errors((1,))[0] > 0 else direction
    return tensors


def _without_zero_ties(plan: Plan, case: Case, perturbed: Mapping[str, Array], sign: float) -> dict[str, Array] | None:
    """Return the inputs with distinct values in place of zeros; None where ties between zeros cannot matter.

    An integer output may be the index of one of several equal values, and any of them is right. The perturbations are
    relative and separate all equal values but zeros.
    """
    zeros = [arg.param for arg in input_tensors(plan) if is_float(arg.dtype) and (case.tensors[arg.param] == 0).any()]
    if not zeros or all(is_float(arg.dtype) for arg in compared_tensors(plan)):
        return None
    tensors = {name: value.copy() for name, value in perturbed.items()}
    for name in zeros:
        order = np.random.default_rng(case.key.seed).standard_normal(tensors[name].shape)
        # 1e-30 is negligible against any perturbation, yet representable in fp32 and far from its subnormals.
        tensors[name] = np.where(tensors[name] == 0, sign * 1e-30 * order, tensors[name])
    return tensors


def _ramped_inputs(plan: Plan, case: Case, reach: float) -> dict[str, Array] | None:
    """Return the inputs with a relative increase that grows with the index up to ``reach``; None for float outputs.

    Random errors may put the same one of many equal values first in every draw. Increasing and decreasing ramps put
    the last and the first one there.
    """
    if all(is_float(arg.dtype) for arg in compared_tensors(plan)):
        return None
    tensors = exact_inputs(plan, case)
    for arg in input_tensors(plan):
        if is_float(arg.dtype):
            values = tensors[arg.param]
            ramp = np.linspace(0.0, reach, values.size).reshape(values.shape)
            with np.errstate(invalid="ignore", over="ignore"):
                moved = values + np.where(values == 0, 1e-30, np.abs(values)) * ramp
                tensors[arg.param] = np.where(np.isinf(values), values, moved)
    return tensors


def _flushed_inputs(plan: Plan, case: Case) -> dict[str, Array] | None:
    """Return the inputs with fp32 subnormals flushed to zero, as ``.ftz`` does; None if there are none."""
    tensors = exact_inputs(plan, case)
    found = False
    for arg in input_tensors(plan):
        # There is no `.ftz` for f64. Narrow formats are included as they are computed in fp32.
        if is_float(arg.dtype) and arg.dtype != "float64":
            values = tensors[arg.param]
            tiny = (np.abs(values) < FORMATS["float32"].tiny) & (values != 0)
            if tiny.any():
                values[tiny] = 0.0
                found = True
    return tensors if found else None


def spread(exact: Array, runs: list[Array]) -> tuple[Doubles, Mask]:
    """Return the largest distance of the runs from the exact result, and a mask of undecided elements.

    An element is undecided if a run makes it finite or not, or changes the sign of its infinity: no distance measures
    that.
    """
    wide = exact.astype(np.float64)
    finite = np.isfinite(wide)
    spread = np.zeros(wide.shape)
    undecided = np.zeros(wide.shape, dtype=np.bool_)
    for run in runs:
        other = run.astype(np.float64)
        if other.shape != wide.shape:
            # Rounding decides how many values an output without a fixed order has.
            undecided[...] = True
            continue
        # NaN in both is agreement; NaN == NaN is not, so the comparison leaves NaN out.
        both = finite & np.isfinite(other)
        undecided |= (finite != np.isfinite(other)) | (~finite & ~np.isnan(wide) & (wide != other))
        distance = np.subtract(other, wide, out=np.zeros_like(wide), where=both)
        np.maximum(spread, np.abs(distance), out=spread)
    return spread, undecided

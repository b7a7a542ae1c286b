"""The reference again, a little off: with disturbed inputs, and with every operation rounding."""

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
from gpuemu_lsp.engine.oracle.inputs import input_tensors, output_tensors
from gpuemu_lsp.engine.oracle.outputs import ReferenceFailure, ReferenceOutput
from gpuemu_lsp.engine.oracle.reference import Reference, call_with, exact_inputs
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic
from gpuemu_lsp.engine.plan.model import Plan

Doubles: TypeAlias = npt.NDArray[np.float64]
Mask: TypeAlias = npt.NDArray[np.bool_]

SPREAD = 8.0
"""Disturbances are this many unit roundoffs: a correct kernel rounds several times on the way to each result."""
_SLOW_SECONDS = 1.0
"""References slower than this are evaluated less often. Everything else that bounds the work counts it: on a busy
machine a case must be allowed the same as on a quiet one."""
_TRACED_SECONDS = 5.0
_TRACED_FACTOR = 50.0


def rounded_operation_runs(
    reference: Reference, plan: Plan, case: Case, expected: ReferenceOutput, arithmetic: KernelArithmetic
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
        runs.append(evaluate(reference, plan, case, exact_inputs(plan, case), noise))
        if runs[-1] is None:
            break
    return [run for run in runs if run is not None]


def perturbed_input_runs(
    reference: Reference, plan: Plan, case: Case, expected: ReferenceOutput, arithmetic: KernelArithmetic
) -> list[ReferenceOutput]:
    """Evaluate with inputs that are off: each element at random, and all of a tensor's upwards; both also reversed.

    Random errors of a long sum cancel; the directed ones show what its terms amount to.
    """
    runs = []
    for directed in (False,) if expected.seconds > _SLOW_SECONDS else (False, True):
        for sign in (1.0, -1.0):
            tensors = _disturbed_inputs(plan, case, _noise(case, arithmetic, sign), directed)
            runs.append(evaluate(reference, plan, case, tensors, None))
            if not directed:
                runs.append(evaluate(reference, plan, case, _without_ties_at_zero(plan, case, tensors, sign), None))
    for sign in (1.0, -1.0):
        runs.append(evaluate(reference, plan, case, _ramped_inputs(plan, case, sign * SPREAD * arithmetic.unit), None))
    runs.append(evaluate(reference, plan, case, _flushed_inputs(plan, case), None))
    return [run for run in runs if run is not None]


def _noise(case: Case, arithmetic: KernelArithmetic, sign: float, draw: int = 0) -> MonteCarloArithmetic:
    seed = derive_seed(case.key.seed, f"budget_{draw}")
    return MonteCarloArithmetic(
        SPREAD * arithmetic.unit, SPREAD * arithmetic.function_unit, arithmetic.form, seed, sign
    )


def evaluate(
    reference: Reference, plan: Plan, case: Case, tensors: dict[str, Array] | None, noise: MonteCarloArithmetic | None
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


def _disturbed_inputs(plan: Plan, case: Case, noise: MonteCarloArithmetic, directed: bool) -> dict[str, Array]:
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


def _ramped_inputs(plan: Plan, case: Case, reach: float) -> dict[str, Array] | None:
    """Return the inputs with later elements a little larger than earlier ones, or smaller; None for float outputs only.

    Random errors may leave the same one of many equal values on top every time; these bring up the first and the last.
    """
    if all(is_float(arg.dtype) for arg in output_tensors(plan)):
        return None
    tensors = exact_inputs(plan, case)
    for arg in input_tensors(plan):
        if is_float(arg.dtype):
            values = tensors[arg.param]
            ramp = np.linspace(0.0, reach, values.size).reshape(values.shape)
            with np.errstate(invalid="ignore", over="ignore"):
                tensors[arg.param] = values + np.where(values == 0, 1e-30, np.abs(values)) * ramp
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


def finite_run(reference: Reference, plan: Plan, case: Case) -> ReferenceOutput | None:
    """Evaluate with finite numbers for the infinities; None where the inputs hold none.

    A NaN that is gone then was made by the reference's formula, as ``inf - inf``: another formula need not have it.
    """
    tensors = exact_inputs(plan, case)
    floats = [arg.param for arg in input_tensors(plan) if is_float(arg.dtype) and np.isinf(tensors[arg.param]).any()]
    for name in floats:
        values = tensors[name]
        tensors[name] = np.where(np.isinf(values), np.sign(values), values)
    return evaluate(reference, plan, case, tensors, None) if floats else None


def spread(exact: Array, runs: list[Array]) -> tuple[Doubles, Mask]:
    """Return how far the runs lie from the exact result, and where finite and non-finite results meet."""
    wide = exact.astype(np.float64)
    finite = np.isfinite(wide)
    spread = np.zeros(wide.shape)
    undecided = np.zeros(wide.shape, dtype=np.bool_)
    for run in runs:
        other = run.astype(np.float64)
        both = finite & np.isfinite(other)
        undecided |= (finite != np.isfinite(other)) | (~finite & ~np.isnan(wide) & (wide != other))
        apart = np.subtract(other, wide, out=np.zeros_like(wide), where=both)
        np.maximum(spread, np.abs(apart), out=spread)
    return spread, undecided

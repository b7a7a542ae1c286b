"""Kernels that only move and compare values: nothing rounds, so nothing is excused."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, is_float
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.oracle.arithmetic import Numerics, spacing
from gpuemu_lsp.engine.oracle.inputs import input_tensors
from gpuemu_lsp.engine.plan.model import Plan, TensorArg


def exact_copy_bound(
    plan: Plan, case: Case, expected: Mapping[str, Array], numerics: Numerics, arg: TensorArg
) -> Array | None:
    """Return the error allowed per element where an output must be exact, None where rounding may play a part.

    A float output is exact in the dtype of its inputs: a narrowing conversion may round in several ways. An integer
    output that chooses among the inputs (the index of a maximum) is exact too, equal values included: the reference
    says which of them it means. One that orders them may put equal values either way.
    """
    if numerics.precisions or not numerics.linear or not case.finite or _has_subnormals(case):
        return None
    inputs = input_tensors(plan)
    values = expected[arg.param]
    if is_float(arg.dtype):
        floats = {other.dtype for other in inputs if is_float(other.dtype)}
        if floats != {arg.dtype} or not bool(np.isfinite(values).all()):
            return None
        half: Array = spacing(values.astype(np.float64), FORMATS[arg.dtype]) / 2
        return half
    chooses = values.dtype.kind != "f" and values.size < max((case.tensors[a.param].size for a in inputs), default=0)
    return np.zeros(values.shape) if chooses else None


def _has_subnormals(case: Case) -> bool:
    """Whether an input holds numbers that fast arithmetic (``.ftz``) takes for zero."""
    for values in case.tensors.values():
        if values.dtype.kind not in "biu":
            wide = np.abs(values.astype(np.float64))
            if bool(((wide > 0) & (wide < FORMATS["float32"].tiny)).any()):
                return True
    return False

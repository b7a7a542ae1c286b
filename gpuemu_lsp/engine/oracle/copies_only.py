"""Exact comparison for kernels that only copy and compare values.

Nothing rounds in such a kernel, so the error budget of its outputs is zero or half a unit in the last place.
"""

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
    """Return the absolute error allowed per element of an output that must be exact, None where rounding is possible.

    A float output is exact if its dtype is that of the float inputs: a narrowing conversion may round in several ways.
    An integer output that selects among the inputs, such as the index of a maximum, is exact including ties, as the
    reference defines which of equal values is meant. An output that orders all inputs may place equal values in
    either order.
    """
    # Without float arithmetic in its PTX and with only finite, normal inputs a kernel cannot round at all. `linear`
    # excludes integer kernels that compute with bit patterns of floats.
    if numerics.precisions or not numerics.linear or not case.finite or _has_subnormals(case):
        return None
    inputs = input_tensors(plan)
    values = expected[arg.param]
    if is_float(arg.dtype):
        floats = {other.dtype for other in inputs if is_float(other.dtype)}
        if floats != {arg.dtype} or not bool(np.isfinite(values).all()):
            return None
        # Half an ulp and not zero: the reference computes in fp64 and may return a value between two neighbours.
        half: Array = spacing(values.astype(np.float64), FORMATS[arg.dtype]) / 2
        return half
    # Fewer outputs than inputs means a selection. An output as long as its input may be a permutation, where the
    # order of equal values is unspecified.
    selects = values.dtype.kind != "f" and values.size < max((case.tensors[a.param].size for a in inputs), default=0)
    return np.zeros(values.shape) if selects else None


def _has_subnormals(case: Case) -> bool:
    """Return whether an input contains numbers that ``.ftz`` instructions treat as zero."""
    for values in case.tensors.values():
        if values.dtype.kind not in "biu":
            wide = np.abs(values.astype(np.float64))
            if bool(((wide > 0) & (wide < FORMATS["float32"].tiny)).any()):
                return True
    return False

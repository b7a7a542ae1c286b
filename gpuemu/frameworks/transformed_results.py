"""Results of a function under a transformation of its framework, compared with its own results."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from gpuemu.frameworks.gradient_records import accepts, called_by_name
from gpuemu.verifier.comparison import Tolerance, compare
from gpuemu.verifier.values import as_array
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS

_NARROW_ROUNDINGS = 16.0
"""Unit roundoffs of the largest result by which results in 16 bits or less may differ under a transformation."""


def called(run_op: Callable[..., Any], tensors: Mapping[str, Any]) -> Any:
    """Call an operation with its inputs by name, as the original does, or with a dict of them if it has other names."""
    return called_by_name(run_op, tensors) if accepts(run_op, tensors) else run_op(dict(tensors))


def plain(results: Mapping[str, Any]) -> dict[str, Any]:
    """Return results by path as arrays of NumPy."""
    return {path: as_array(one) for path, one in results.items()}


def results_equal(left: Mapping[str, Any], right: Mapping[str, Any], rtol: float, atol: float) -> bool:
    """Return whether results are equal within the tolerance, and the rounding of each operation to narrow formats."""
    first, second = plain(left), plain(right)
    if list(first) != list(second):
        return False
    for path, value in first.items():
        roundoff = FORMATS[value.dtype.name].roundoff if value.dtype.name in FORMATS else 0.0
        # A compiler fuses operations, whose results are then not rounded to a narrow format.
        relative = _NARROW_ROUNDINGS * roundoff if roundoff > FORMATS["float32"].roundoff else 0.0
        finite = np.abs(np.nan_to_num(value.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0))
        absolute = relative * float(finite.max(initial=0.0))
        if compare(value, second[path], Tolerance(max(rtol, relative), max(atol, absolute))) is not None:
            return False
    return True

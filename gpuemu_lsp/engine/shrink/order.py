"""Which of two failing cases is the better one to show: smaller first, then plainer."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.model import Array, Case

_FRACTIONS = (1, 2, 3, 4, 8, 16, 24, 60)
_NOT_INTEGER = 100.0
_INFINITE = 1000.0
_NAN = 1001.0


def is_simpler(left: Case, right: Case) -> bool:
    """Compare by size, then by how many input elements are not zero, then by how plain those are."""
    for key in (size_key, count_key, rank_key):  # the cheap ones first: inputs may have a million elements
        ours, theirs = key(left), key(right)
        if ours != theirs:
            return bool(ours < theirs)
    return False


def size_key(case: Case) -> tuple[object, ...]:
    """Order cases by elements, then the sum of sizes, then the sizes by name, then by how oddly they lie in memory.

    The fewer tensors do, the plainer; then, the smaller their gaps and offsets.
    """
    elements = sum(tensor.size for tensor in case.tensors.values())
    elements += sum(math.prod(shape) for shape in case.outputs.values())
    return elements, sum(case.dims.values()), *sorted(case.dims.items()), len(case.extra), _gaps(case)


def _gaps(case: Case) -> int:
    return sum(int(number) for text in case.extra.values() for number in text.split(",") if number.isdigit())


def count_key(case: Case) -> tuple[object, ...]:
    """Order cases by the number of input elements that are not zero."""
    return (sum(int(np.count_nonzero(tensor)) for tensor in case.tensors.values()),)


def rank_key(case: Case) -> tuple[object, ...]:
    """Order cases by how plain their values are."""
    return (math.fsum(float(complexity(tensor).sum()) for tensor in case.tensors.values()),)


def complexity(tensor: Array) -> npt.NDArray[np.float64]:
    """Rank every element: zero is 0 and one is 1, then come integers, fractions, infinities, NaN; negatives later.

    Returns
    -------
    ndarray of float64, shape of ``tensor``
        The lower the plainer.
    """
    values = tensor.astype(np.float64)
    finite = np.isfinite(values)
    magnitude = np.abs(np.where(finite, values, 0.0))
    rank = np.log2(1.0 + magnitude)
    rank += np.where(values < 0, 0.25, 0.0)
    rank += np.where(magnitude != np.rint(magnitude), _NOT_INTEGER + _fraction_bits(magnitude), 0.0)
    rank = np.where(np.isinf(values), _INFINITE, rank)
    return np.where(np.isnan(values), _NAN, rank)


def _fraction_bits(magnitude: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """Return about how many binary digits each value needs after the point."""
    bits = np.full_like(magnitude, _FRACTIONS[-1] + 1)
    for count in reversed(_FRACTIONS):
        scaled = np.ldexp(magnitude, count)
        bits[scaled == np.rint(scaled)] = count
    return bits

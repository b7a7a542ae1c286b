"""The order of cases: fewer elements first, then simpler layouts, then simpler values."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.model import Array, Case

_FRACTIONS = (1, 2, 3, 4, 8, 16, 24, 60)
"""Binary digits after the point by which fractions are distinguished."""
_NOT_INTEGER = 100.0
_INFINITE = 1000.0
_NAN = 1001.0


def is_simpler(left: Case, right: Case) -> bool:
    """Return whether ``left`` precedes ``right``: by size, then non-zero input elements, then their complexity."""
    # Each key is computed only if the one before is equal: the last takes seconds for a million elements.
    for key in (size_key, count_key, rank_key):
        ours, theirs = key(left), key(right)
        if ours != theirs:
            return bool(ours < theirs)
    return False


def size_key(case: Case) -> tuple[object, ...]:
    """Return the elements of all tensors, the sum of the dims, the dims by name, and the complexity of the layouts.

    The last has the number of unusual layouts first, then the total of their gaps and offsets.
    """
    # Elements before dims, as people read the arrays: a vector of 30 is simpler than matrices with M = N = K = 4. The
    # dims by name distinguish cases that are otherwise equal.
    elements = sum(tensor.size for tensor in case.tensors.values())
    elements += sum(math.prod(shape) for shape in case.outputs.values())
    return elements, sum(case.dims.values()), *sorted(case.dims.items()), len(case.extra), _gaps(case)


def _gaps(case: Case) -> int:
    return sum(int(number) for text in case.extra.values() for number in text.split(",") if number.isdigit())


def count_key(case: Case) -> tuple[object, ...]:
    """Return the number of input elements that are not zero."""
    return (sum(int(np.count_nonzero(tensor)) for tensor in case.tensors.values()),)


def rank_key(case: Case) -> tuple[object, ...]:
    """Return the total complexity of the input elements."""
    # fsum: the result must not depend on the order in which the tensors are stored.
    return (math.fsum(float(complexity(tensor).sum()) for tensor in case.tensors.values()),)


def complexity(tensor: Array) -> npt.NDArray[np.float64]:
    """Rank every element by how hard it is to reason about.

    Zero has rank 0 and one has rank 1; larger integers, fractions, infinities and NaN follow in this order, and a
    negative number follows its absolute value.

    Returns
    -------
    ndarray of float64, shape of ``tensor``
        The rank; the smallest is the simplest.
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
    """Return the number of binary digits each value needs after the point, rounded up to one of a few numbers."""
    bits = np.full_like(magnitude, _FRACTIONS[-1] + 1)
    for count in reversed(_FRACTIONS):
        scaled = np.ldexp(magnitude, count)
        bits[scaled == np.rint(scaled)] = count
    return bits

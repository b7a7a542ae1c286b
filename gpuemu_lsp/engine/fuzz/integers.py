"""Integer and boolean equivalents of the distributions in :mod:`gpuemu_lsp.engine.fuzz.values`."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.fuzz.rng import Rng

Integers: TypeAlias = npt.NDArray[np.int64]
Bounds: TypeAlias = tuple[float, float]

_REACH = 4
"""Magnitude of integers that are drawn where nothing is known of them."""
_LONG_ROWS, _FIRST_ROWS = (37, 150, 300), 3
"""Lengths with which a warp, and blocks of 128 and 256 threads, have more than one round for a row."""
SMALL_INTEGERS = "small-integers"
"""Name of the distribution whose sums and products are exact in any order."""


def bools(name: str, rng: Rng, count: int) -> Array:
    """Draw booleans."""
    if name == "constant":
        return np.full(count, rng.bool(0.5))
    return rng.f64_array(count) < 0.5


def mixed_masks(rng: Rng, rows: Array) -> None:
    """Set a third of the rows of a mask to its lower value and a third to its upper one, in place.

    Of a row with several independent elements hardly any is empty, and a softmax without a kept element is NaN.
    """
    if rows.size:
        start = int(rng.u64() % 3)
        low, high = rows.min(), rows.max()
        rows[start::3] = low
        rows[(start + 1) % 3 :: 3] = high


def bounded_integers(name: str, rng: Rng, dtype: str, count: int, bounds: Bounds | None) -> Array:
    """Draw integers of a half-open range, or without one from the distribution's own range.

    Raises
    ------
    ValueError
        If the range has no value of the dtype.
    """
    if bounds is None:
        return _integers(name, rng, dtype, count)
    info = np.iinfo(dtype)
    low, high = max(int(bounds[0]), int(info.min)), min(int(bounds[1]), int(info.max) + 1)
    if low >= high:
        raise ValueError(f"the range [{bounds[0]:g}, {bounds[1]:g}) contains no {dtype}")
    return _within(name, rng, count, low, high).astype(dtype)


def plant(rng: Rng, values: Array, constants: Collection[int]) -> None:
    """Replace half of the elements, in place, by integers next to ``constants`` that the values do not reach."""
    if values.dtype.kind not in "iu":
        return
    info = np.iinfo(values.dtype)
    distant = {one + step for one in constants if abs(one) > _REACH for step in (-1, 0, 1)}
    fitting = sorted(one for one in distant if info.min <= one <= info.max)
    if fitting and values.size:
        drawn = rng.u64_array(values.size).reshape(values.shape)
        chosen = (drawn // np.uint64(2)) % np.uint64(len(fitting))
        planted = np.array(fitting, values.dtype)[chosen.astype(np.intp)]
        np.copyto(values, planted, where=drawn % np.uint64(2) == 0)


def offsets(rng: Rng, dtype: str, shape: tuple[int, ...], most: int) -> Array:
    """Draw numbers from zero to ``most`` that do not decrease, as those with which the rows of a sparse matrix begin.

    Rows are shorter than four elements, but one of eight is longer than a warp, and one of the first more than that.
    """
    drawn = rng.u64_array(int(np.prod(shape, dtype=np.int64)))
    lengths = np.where(drawn % np.uint64(8) == 0, _LONG_ROWS[0], (drawn // np.uint64(8)) % np.uint64(4))
    lengths[rng.u64() % _FIRST_ROWS : _FIRST_ROWS : _FIRST_ROWS] = rng.choice(_LONG_ROWS)
    begins = np.concatenate(([0], np.cumsum(lengths.astype(np.int64))))[: lengths.size]
    return np.minimum(begins, most).astype(dtype).reshape(shape)


def _within(name: str, rng: Rng, count: int, low: int, high: int) -> npt.NDArray[Any]:
    """Draw integers of [low, high). Both ends always occur, because index bugs are off by one.

    Large values are only the ends; permuted ones are distinct if the range has enough values.
    """
    span = high - low
    if name == "permuted" and span < 2**62:
        places = permutation(rng, count) % span
        return places + low if high <= 2**63 else places.astype(np.uint64) + np.uint64(low)
    offsets = rng.u64_array(count)
    if span < 2**64:
        offsets %= np.uint64(span)
    if name == "constant":
        # A missing bounds check fails for an index at either end.
        offsets[:] = np.uint64(rng.choice((0, span - 1, rng.u64() % span)))
    elif name in ("sorted", "rising"):
        offsets.sort()
    elif name == "ties":
        offsets %= np.uint64(min(span, 3))
    elif name in _ENDS:
        offsets = np.where(offsets & np.uint64(1), np.uint64(span - 1), np.uint64(0))
    elif count >= 2:
        offsets[0], offsets[-1] = 0, span - 1
    if high <= 2**63:
        return offsets.astype(np.int64) + low if span < 2**63 else (offsets + np.uint64(low % 2**64)).astype(np.int64)
    return offsets + np.uint64(low)


def _integers(name: str, rng: Rng, dtype: str, count: int) -> Array:
    signed = dtype.startswith("int")
    info = np.iinfo(dtype)
    if name in ("adversarial", "extreme", "nan-injected"):
        ends = np.array([info.min, info.max, 0, 1, info.max // 2], dtype=dtype)
        return ends[(rng.u64_array(count) % np.uint64(len(ends))).astype(np.intp)]
    if name in ("uniform", "large") and not signed:
        return rng.u64_array(count).astype(dtype)
    low, high = _INTEGER_RANGES.get(name, (-100, 100))
    if not signed:
        low, high = max(low, 0), max(high, 2)
    values = _within(name, rng, count, low, high) if name != "uniform" else _original_integers(rng, count)
    return values.astype(dtype)


def _original_integers(rng: Rng, count: int) -> Integers:
    return (rng.u64_array(count) % np.uint64(200)).astype(np.int64) - 100


def permutation(rng: Rng, count: int) -> Integers:
    """Return a permutation of the first ``count`` integers."""
    return np.argsort(rng.u64_array(count), kind="stable").astype(np.int64)


_ENDS = frozenset({"large", "extreme", "adversarial"})
"""Distributions for which integers with a range are one of its ends."""

_INTEGER_RANGES = {
    "positive": (1, 100),
    "negative": (-100, 0),
    "lowered": (-100, 0),
    SMALL_INTEGERS: (-4, 5),
    "small": (-2, 3),
    "one-hot": (0, 2),
    "mixed-rows": (-8, 9),
    "constant": (1, 8),
}

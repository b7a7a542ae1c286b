"""Value distributions of floating-point inputs.

``uniform`` is the original's stream. The others find bugs that it does not: zero padding in a maximum affects the
result only if all values are negative, an epsilon in the wrong place only near zero, a softmax without subtraction of
the maximum only for large values. Floats are drawn in fp64 and rounded to nearest into their dtype.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, FloatFormat, is_float, numpy_dtype
from gpuemu_lsp.engine.fuzz.integers import SMALL_INTEGERS, Bounds, bools, bounded_integers, mixed_masks, permutation
from gpuemu_lsp.engine.fuzz.model import Array
from gpuemu_lsp.engine.fuzz.rng import Rng

Doubles: TypeAlias = npt.NDArray[np.float64]
Shape: TypeAlias = tuple[int, ...]

SPECIAL_ROWS, SPECIAL_VALUES, MASKED_ROW = "special-rows", "special-values", "masked-row"
SPECIAL_RUNS = "special-runs"
NON_FINITE = frozenset({"nan-injected", "adversarial", SPECIAL_ROWS, SPECIAL_VALUES, MASKED_ROW, SPECIAL_RUNS})
"""Distributions with NaN and Inf, unless the argument has a range."""

DEFAULT_SPECIAL = frozenset({SPECIAL_ROWS, SPECIAL_VALUES, SPECIAL_RUNS})
"""Those of the default cases: the last one of unregistered kernels, the others of registered ones."""

_NUMBERS_WITH_SPECIAL = 4
"""Length of a run of numbers from which on two of them are not."""

_PATTERNS = frozenset({"ties", "constant", "one-hot", "sorted", "rising", "permuted"})
"""Distributions defined by order and equality of values; a range shifts and scales them as a whole."""


def draw(name: str, rng: Rng, dtype: str, shape: Shape, bounds: Bounds | None = None) -> Array:
    """Draw an array.

    Parameters
    ----------
    name
        A key of :data:`DISTRIBUTIONS`.
    dtype
        Storage dtype name.
    bounds
        Half-open for integers, closed for floats; floats stay finite then. A ``bool`` is fixed by those of one value.

    Raises
    ------
    ValueError
        If no value is within ``bounds``.
    """
    count = int(np.prod(shape, dtype=np.int64))
    if dtype == "bool" and bounds is not None and bounds[1] - bounds[0] == 1:
        flat = np.full(count, bool(bounds[0]))
    elif dtype == "bool":
        flat = bools(name, rng, count)
    elif is_float(dtype):
        flat = _bounded_floats(name, rng, dtype, shape, bounds)
    else:
        flat = bounded_integers(name, rng, dtype, count, bounds)
    if name == "mixed-rows" and len(shape) > 1 and (dtype == "bool" or _has_two_values(dtype, bounds)):
        mixed_masks(rng, flat.reshape(-1, max(1, shape[-1])))
    return flat.reshape(shape)


def _has_two_values(dtype: str, bounds: Bounds | None) -> bool:
    return not is_float(dtype) and bounds is not None and int(bounds[1]) - int(bounds[0]) == 2


def _uniform(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    return (2 * rng.f64_array(_size(shape)) - 1) * 10


def _positive(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    return (1 - rng.f64_array(_size(shape))) * 10


def _negative(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """Negative values, so that a zero of the padding is the maximum; every second row is so low that exp() is 0."""
    columns = max(1, shape[-1]) if shape else 1
    values = (-1 - rng.f64_array(_size(shape)) * 9).reshape(-1, columns)
    values[int(rng.u64() % 2) :: 2] -= 200
    return values.reshape(-1)


def _lowered(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """Negative values, every second row low; the squares of all stay within fp16."""
    values = _negative(rng, shape, form)
    return np.where(values < -100, values + 150, values)


def _small_integers(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    # fp16 represents integers up to 2048 exactly and bfloat16 up to 256: sums of three values stay below.
    reach = 4 if form.digits >= 24 else 1
    return (rng.u64_array(_size(shape)) % np.uint64(2 * reach + 1)).astype(np.float64) - reach


def _small(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    return _uniform(rng, shape, form) * (2.0**-12 if form.digits >= 24 else 2.0**-6)


def _large(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    # exp() overflows in fp32, but not in the fp64 of the reference; sums of squares stay finite.
    reach = 300.0 if form.largest > 1e6 else 100.0
    return (2 * rng.f64_array(_size(shape)) - 1) * reach


def _moderate(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    # Sums of a few dozen squares overflow fp16, single products do not.
    return (2 * rng.f64_array(_size(shape)) - 1) * 60.0


def _mixed_rows(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """Rows of different magnitudes (zeros, one spike, tiny, medium, wide), which a uniform distribution averages out.

    A vector has one magnitude per element, so that all combinations of several inputs' magnitudes occur.
    """
    columns = shape[-1] if len(shape) > 1 else 1
    rows = max(1, _size(shape) // max(1, columns))
    values = (2 * rng.f64_array(rows * columns) - 1).reshape(rows, columns)
    start = np.arange(rows, dtype=np.uint64) if len(shape) > 1 else rng.u64_array(rows) % np.uint64(5)
    kinds = (start + np.uint64(rng.u64() % 5)) % np.uint64(5)
    spikes = (rng.u64_array(rows) % np.uint64(max(1, columns))).astype(np.intp)
    scale = np.array([0.0, 0.0, 2.0**-9 if form.digits >= 24 else 2.0**-5, 10.0, 30.0])[kinds.astype(np.intp)]
    values *= scale[:, None]
    spiky = np.flatnonzero(kinds == 1)
    if columns:
        values[spiky, spikes[spiky]] = 5.0
    return values.reshape(-1)


def _constant(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    return np.full(_size(shape), float(rng.choice((1.0, -2.0, 0.5, 3.0))))


def _one_hot(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    columns = shape[-1] if shape else 1
    rows = _size(shape) // max(1, columns)
    values = np.zeros((rows, columns))
    if values.size:
        values[np.arange(rows), (rng.u64_array(rows) % np.uint64(columns)).astype(np.intp)] = 1.0
    return values.reshape(-1)


def _sorted(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    # Row by row: if sorted across rows, each row would be nearly constant.
    columns = max(1, shape[-1]) if shape else 1
    values = np.sort(_uniform(rng, shape, form).reshape(-1, columns), axis=-1)
    return (values if rng.bool(0.5) else values[:, ::-1]).reshape(-1)


def _rising(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """Values that increase from the first to the last element: a running maximum changes until the end."""
    return np.sort(_positive(rng, shape, form))


def _permuted(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """A permutation of evenly spaced values."""
    count = _size(shape)
    return 20 * (permutation(rng, count) + 0.5) / max(1, count) - 10


def _ties(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    return (rng.u64_array(_size(shape)) % np.uint64(3)).astype(np.float64) - 1.0


def _magnitudes(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """Signs and powers of two from 2**-9 to 2**3 times a random fraction."""
    count = _size(shape)
    exponents = (rng.u64_array(count) % np.uint64(13)).astype(np.float64) - 9
    return (2 * rng.f64_array(count) - 1) * 2.0**exponents


def _denormals(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    return (2 * rng.f64_array(_size(shape)) - 1) * form.tiny


def _nan_injected(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """5 % of the elements, and at least one, become NaN, Inf, -Inf or 0."""
    values = _uniform(rng, shape, form)
    if values.size == 0:
        return values
    hit = rng.f64_array(values.size) < 0.05
    hit[rng.u64() % values.size] = True
    specials = np.array([np.nan, np.inf, -np.inf, 0.0])
    values[hit] = specials[(rng.u64_array(values.size) % np.uint64(4)).astype(np.intp)][hit]
    return values


def _special_values(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """Return those of :func:`_nan_injected`, without rows that begin with -Inf (see :func:`_special_rows`)."""
    values = _nan_injected(rng, shape, form)
    if shape and shape[-1] > 1:
        first = values[:: shape[-1]]
        first[first == -np.inf] = 0.0
    return values


def _special_rows(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """Rows with one kind of special value each, so that a NaN of one kind does not hide what another would show.

    One NaN; nothing; -Inf in all of the row, as masks have it; one Inf; one -Inf; zeros of both signs; subnormals; -Inf
    from an element on. A vector has one NaN, zeros and subnormals.

    No row begins with -Inf and goes on with numbers: a running maximum that begins with -Inf gives NaN there, which is
    right where no mask is applied. :func:`_masked_row` is for masks.
    """
    columns = max(1, shape[-1] if shape else 1)
    values = _uniform(rng, shape, form).reshape(-1, columns)
    rows = len(values)
    if not values.size:
        return values.reshape(-1)
    start = int(rng.u64() % 8) if rows >= 8 else 0
    places = (rng.u64_array(rows) % np.uint64(columns)).astype(np.intp)
    for row, place in enumerate(places):
        kind = (start + row) % 8
        if kind == 0:
            values[row, place] = np.nan
        elif kind == 2:
            values[row] = -np.inf
        elif kind == 7:
            values[row, max(int(place), 1) :] = -np.inf
        elif kind in (3, 4):
            values[row, place if kind == 3 else max(place, 1) % columns] = np.inf if kind == 3 else -np.inf
        if kind == 5 or rows == 1:
            values[row, place + 1 :: 3] = np.where(values[row, place + 1 :: 3] < 0, -0.0, 0.0)
        if kind == 6 or rows == 1:
            values[row, place + 2 :: 3] *= form.tiny / 16
    return values.reshape(-1)


def _special_runs(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """Runs of numbers, of which the longer ones begin with NaN and end with Inf, alternate with runs of -Inf.

    How the elements are divided into rows and tiles is not known of an unregistered kernel. So each pair of runs is
    twice as long as the one before: at whatever length, some runs are in a row, and some have all of one.
    """
    values = _uniform(rng, shape, form)
    begin, length = int(rng.u64() % 3), 1
    while begin + length < values.size:
        middle, end = begin + length, begin + 2 * length
        values[middle:end] = -np.inf
        if length >= _NUMBERS_WITH_SPECIAL:
            values[begin], values[middle - 1] = np.nan, np.inf
        begin, length = end, 2 * length
    return values


def _masked_row(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    """One row of a matrix has -Inf in a half or in all of it, as a mask that is added has."""
    values = _uniform(rng, shape, form)
    if len(shape) > 1 and values.size:
        rows = values.reshape(-1, shape[-1])
        rows[int(rng.u64() % len(rows)), _part(rng, shape[-1])] = -np.inf
    return values


def _part(rng: Rng, columns: int) -> slice:
    """Return all of a row in half of the cases, or its first or second half."""
    half = columns // 2
    return (slice(0, columns), slice(0, columns), slice(0, columns - half), slice(half, columns))[int(rng.u64() % 4)]


def _extremes(rng: Rng, shape: Shape, form: FloatFormat, buckets: int) -> Doubles:
    """Equal shares of: zero, very small, largest / 10, U[-1000, 1000] and, with five buckets, non-finite."""
    count = _size(shape)
    bucket = (rng.u64_array(count) % np.uint64(buckets)).astype(np.intp)
    fraction = 2 * rng.f64_array(count) - 1
    sign = np.where(fraction < 0, -1.0, 1.0)
    specials = np.array([np.inf, -np.inf, np.nan])[(rng.u64_array(count) % np.uint64(3)).astype(np.intp)]
    wide = fraction * min(1e3, form.largest / 10)
    small = fraction * (form.tiny if form.digits >= 11 else 4 * form.tiny)
    return np.choose(bucket, [np.zeros(count), small, sign * form.largest / 10, wide, specials][:buckets])


def _adversarial(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    return _extremes(rng, shape, form, 5)


def _extreme(rng: Rng, shape: Shape, form: FloatFormat) -> Doubles:
    return _extremes(rng, shape, form, 4)


_FLOATS: dict[str, Callable[[Rng, Shape, FloatFormat], Doubles]] = {
    "uniform": _uniform,
    "positive": _positive,
    "negative": _negative,
    "lowered": _lowered,
    SMALL_INTEGERS: _small_integers,
    "small": _small,
    "large": _large,
    "moderate": _moderate,
    "mixed-rows": _mixed_rows,
    "constant": _constant,
    "one-hot": _one_hot,
    "sorted": _sorted,
    "rising": _rising,
    "permuted": _permuted,
    "ties": _ties,
    "magnitudes": _magnitudes,
    "denormals": _denormals,
    "nan-injected": _nan_injected,
    SPECIAL_ROWS: _special_rows,
    SPECIAL_VALUES: _special_values,
    MASKED_ROW: _masked_row,
    SPECIAL_RUNS: _special_runs,
    "adversarial": _adversarial,
    "extreme": _extreme,
}

DISTRIBUTIONS = tuple(_FLOATS)
"""Names of the distributions. Integers have the closest equivalent of each (:mod:`.integers`)."""


def _bounded_floats(name: str, rng: Rng, dtype: str, shape: Shape, bounds: Bounds | None) -> Array:
    form = FORMATS[dtype]
    if bounds is None:
        return _round(_FLOATS[name](rng, shape, form), dtype)
    low, high = bounds
    if not low <= high:
        raise ValueError(f"the range [{low:g}, {high:g}] is empty")
    spread = low + rng.f64_array(_size(shape)) * (high - low)
    if name != "uniform":
        wanted = _FLOATS[name](rng, shape, form)
        if name in _PATTERNS and wanted.size and (wanted.min() < low or wanted.max() > high):
            # Shifting and scaling preserves how values compare.
            reach = float(np.ptp(wanted))
            wanted = low + (wanted - wanted.min()) * ((high - low) / max(reach, 1.0)) if reach else spread[:1]
        with np.errstate(invalid="ignore"):
            spread = np.where((wanted >= low) & (wanted <= high), wanted, spread)
    stored = _round(np.clip(spread, low, high), dtype)
    return _pull_inside(stored, low, high)


def _pull_inside(stored: Array, low: float, high: float) -> Array:
    """Replace values that rounding moved out of the bounds by the next representable ones inside."""
    wide = stored.astype(np.float64)
    for outside, towards in ((wide > high, low), (wide < low, high)):
        if outside.any():
            stored[outside] = np.nextafter(stored[outside], np.asarray(towards, dtype=stored.dtype))
    return stored


def _round(values: Doubles, dtype: str) -> Array:
    with np.errstate(over="ignore", under="ignore"):
        return values.astype(numpy_dtype(dtype))


def _size(shape: Shape) -> int:
    return int(np.prod(shape, dtype=np.int64))

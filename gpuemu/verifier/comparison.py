"""Comparison of a result with that of the ground truth: structure, shapes, then values within a tolerance."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from gpuemu.verifier.values import Array, as_array, leaves
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS

DEFAULT_RTOL, DEFAULT_ATOL = 1e-2, 1e-8
_ROUNDINGS = 64.0
"""Unit roundoffs of a row's largest magnitude that are allowed where no tolerance was given."""
_BLOCK = 1 << 17
"""Elements that are compared at a time: temporary arrays of this size stay in the cache and are not mapped again."""


@dataclass(frozen=True, slots=True)
class Tolerance:
    """``atol + rtol * |expected|`` per element; ``explicit`` if the caller gave one of them."""

    rtol: float = DEFAULT_RTOL
    atol: float = DEFAULT_ATOL
    explicit: bool = True
    equal_nan: bool = True


@dataclass(frozen=True, slots=True)
class Difference:
    """How a result differs from the expected one. ``output`` is the path of the worst output in the result.

    ``text`` is what a sentence says of the element at ``index`` of that output.
    """

    text: str
    rule: str = "numeric/tolerance-exceeded"
    output: str = ""
    index: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    max_abs: float | None = None
    max_rel: float | None = None

    @property
    def message(self) -> str:
        """The sentence about the result of a call."""
        return self.sentence("result")

    def sentence(self, noun: str) -> str:
        """Return the sentence in which ``noun`` is what was compared."""
        name = f"{noun}.{self.output}" if self.output else noun
        return f"{name}[{', '.join(map(str, self.index))}] {self.text}" if self.index else f"{name} {self.text}"


def compare(
    actual: Any,
    expected: Any,
    tolerance: Tolerance,
    terms: int = 1,
    allowed: Mapping[str, Array] | None = None,
) -> Difference | None:
    """Return the worst difference between two results, None if they are equal within the tolerance.

    Values are compared after widening to fp64; integers and booleans must be equal. ``terms`` is the length of the
    longest sum that may have been rounded, for a tolerance that was not given. ``allowed`` are absolute errors per
    element by path, which replace the tolerance.
    """
    found, wanted = leaves(actual), leaves(expected)
    if list(found) != list(wanted):
        return _structure(found, wanted)
    worst: tuple[float, Difference] | None = None
    for path, value in found.items():
        compared = _leaf(path, value, wanted[path], tolerance, terms, (allowed or {}).get(path))
        if compared is not None and (worst is None or compared[0] > worst[0]):
            worst = compared
    return None if worst is None else worst[1]


def _structure(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> Difference:
    def named(values: Mapping[str, Any]) -> str:
        return ", ".join(path or "one value" for path in values) or "nothing"

    return Difference(f"consists of {named(found)}, expected {named(wanted)}", "numeric/shape-mismatch")


def _shape(path: str, left: tuple[int, ...], right: tuple[int, ...], value: Any) -> Difference:
    text = f"has shape {list(left)}, expected {list(right)}"
    return Difference(text, "numeric/shape-mismatch", path, shape=left, dtype=dtype_name(value))


def _leaf(
    path: str, value: Any, expected: Any, tolerance: Tolerance, terms: int, allowed: Array | None
) -> tuple[float, Difference] | None:
    if value is None or expected is None or isinstance(value, str) or isinstance(expected, str):
        if (value is None and expected is None) or value == expected:
            return None
        return np.inf, Difference(f"is {value!r}, expected {expected!r}", output=path)
    left, right = as_array(value), as_array(expected)
    if left.shape != right.shape:
        return np.inf, _shape(path, left.shape, right.shape, value)
    if not _differ(left, right, tolerance, terms, allowed):
        return None
    wrong, ratio, error = differences(left, right, tolerance, terms, allowed)
    index = tuple(int(i) for i in np.unravel_index(int(np.argmax(np.where(wrong, ratio, -1.0))), wrong.shape))
    return float(ratio[index]), describe(path, left, right, wrong, index, error)


def _differ(left: Array, right: Array, tolerance: Tolerance, terms: int, budget: Array | None) -> bool:
    """Whether an element is wrong, without temporary arrays of the size of the output."""
    if budget is None:
        # The rounding of a sum is bounded by the largest magnitude of its row.
        parts = blocks(left, right, rows=not tolerance.explicit)
    else:
        parts = blocks(left, right, np.broadcast_to(budget, left.shape))
    return any(differences(one[0], one[1], tolerance, terms, *one[2:])[0].any() for one in parts)


def blocks(*arrays: Array, rows: bool = False) -> Iterator[tuple[Array, ...]]:
    """Yield arrays of one shape in blocks; the arrays themselves if they are small.

    With ``rows``, the last dimension is not divided.
    """
    first = arrays[0]
    if first.size <= _BLOCK:
        yield arrays
        return
    flat = [array.reshape((-1, first.shape[-1]) if rows else -1) for array in arrays]
    step = max(_BLOCK // first.shape[-1], 1) if rows else _BLOCK
    for begin in range(0, len(flat[0]), step):
        yield tuple(array[begin : begin + step] for array in flat)


def describe(
    path: str, actual: Array, expected: Array, wrong: npt.NDArray[np.bool_], index: tuple[int, ...], error: Array
) -> Difference:
    """Return the difference of one output whose elements ``wrong`` differ, the worst of them at ``index``."""
    with np.errstate(all="ignore"):
        relative = error / np.abs(expected.astype(np.complex128))
    largest = [
        float(np.max(values, where=np.isfinite(values), initial=0.0)) for values in (error, np.asarray(relative))
    ]
    text = f"= {_number(actual[index])}, expected {_number(expected[index])}"
    count = int(np.count_nonzero(wrong))
    if wrong.size > 1:
        text += f"; {count} of {wrong.size} elements differ"
    special = np.isnan(actual.astype(np.complex128)) != np.isnan(expected.astype(np.complex128))
    rule = "numeric/nan" if (special & wrong).any() else "numeric/tolerance-exceeded"
    return Difference(text, rule, path, index, actual.shape, dtype_name(actual), largest[0], largest[1])


def differences(
    left: Array, right: Array, tolerance: Tolerance, terms: int, budget: Array | None = None
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """Return the wrong elements of one output, the error as a fraction of the allowed one, and the absolute error."""
    if left.dtype.kind in "iub" and right.dtype.kind in "iub":
        wrong = np.asarray(left != right)
        if budget is not None:
            wrong &= np.abs(left.astype(np.float64) - right.astype(np.float64)) > np.where(budget > 0, budget, -1)
        # Integers beyond 2**53 are equal in fp64 only.
        error = np.maximum(np.abs(left.astype(np.float64) - right.astype(np.float64)), wrong * 1.0)
        return wrong, np.where(wrong, np.inf, 0.0), error
    kind = np.complex128 if "c" in (left.dtype.kind, right.dtype.kind) else np.float64
    wide_left, wide_right = left.astype(kind), right.astype(kind)
    with np.errstate(all="ignore"):
        error = np.abs(wide_left - wide_right)
        allowed = tolerance.atol + tolerance.rtol * np.abs(wide_right)
        if budget is not None:
            allowed = budget
        elif not tolerance.explicit:
            allowed = np.maximum(allowed, _rounding(left, right, terms))
        same = (wide_left == wide_right) | (error <= allowed) & np.isfinite(error) | (allowed == np.inf)
        if tolerance.equal_nan:
            same |= np.isnan(wide_left) & np.isnan(wide_right)
        ratio = np.where(np.isfinite(error), error / np.maximum(allowed, 1e-300), np.inf)
    return np.asarray(~same), np.asarray(ratio), np.asarray(error)


def _rounding(left: Array, right: Array, terms: int) -> npt.NDArray[np.float64]:
    """Return the error that cancellation in a sum of ``terms`` may cause, in the narrower format of both."""
    forms = [FORMATS[name] for name in (dtype_name(left), dtype_name(right)) if name in FORMATS]
    roundoff = max((form.roundoff for form in forms), default=0.0)
    magnitude = np.abs(np.nan_to_num(right.astype(np.complex128), nan=0.0, posinf=0.0, neginf=0.0))
    rows = magnitude.max(axis=-1, keepdims=True, initial=0.0) if magnitude.ndim else magnitude
    growth = 1.0 + float(np.sqrt(terms)) / 4
    return np.broadcast_to(_ROUNDINGS * roundoff * growth * rows, right.shape)


def dtype_name(value: Any) -> str:
    """Return the name of a dtype as NumPy and ml_dtypes spell it."""
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else str(dtype).removeprefix("torch.")


def _number(value: Any) -> str:
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float):
        return f"{plain:.7g}"
    return str(plain)

"""Comparison of outputs whose values have no fixed order: ``compare = "sorted"`` and ``compare = "set"``.

A kernel that takes its output position from an atomic counter writes the right values in an unspecified order, and a
stream compaction fewer of them than its buffer has elements. Both sides are therefore sorted before they are compared:
each row of the last axis where the reference returns the declared shape, otherwise all values that the kernel wrote.
Sorted sequences are matched in order, which finds a pairing within the error budget if the budgets of neighbouring
values are alike. For a set each value needs a counterpart within the budget, in both directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Array, Case
from gpuemu_lsp.engine.oracle.arithmetic import integer_distance
from gpuemu_lsp.engine.oracle.budget import ErrorBudget
from gpuemu_lsp.engine.oracle.mismatch import Deviation, Mismatch, WrongElements, describe, number, with_dims
from gpuemu_lsp.engine.plan.model import TensorArg

Mask: TypeAlias = npt.NDArray[np.bool_]
_RULE = "numeric/tolerance-exceeded"


@dataclass(frozen=True, slots=True)
class UnorderedOutput:
    """One output and the sorted values that the reference returned, flat; ``written`` marks what the kernel wrote."""

    arg: TensorArg
    case: Case
    actual: Array
    expected: Array
    budget: ErrorBudget
    written: Mask

    @property
    def in_rows(self) -> bool:
        """Whether each row is compared by itself."""
        return self.arg.compare == "sorted" and self.expected.shape == self.actual.shape

    @property
    def decided(self) -> int:
        """The number of expected values that are compared: rows without a value that rounding leaves open."""
        undecided = _rows(self.budget.undecided, self.in_rows).any(axis=1)
        return int(_rows(self.expected, self.in_rows)[~undecided].size)


def compare_unordered(output: UnorderedOutput) -> list[Mismatch]:
    """Return the mismatch of an output with values that are missing or that the reference did not return."""
    in_rows = output.in_rows
    places = _rows(np.arange(output.actual.size).reshape(output.actual.shape), in_rows)
    if not in_rows:
        # What was not written holds poison, which is not a value of the kernel.
        places = places[:, output.written.reshape(-1)]
    actual, expected = _comparable(output)
    allowed = _rows(output.budget.allowed, in_rows)
    undecided = _rows(output.budget.undecided, in_rows).any(axis=1)
    extra: list[int] = []
    missing: list[int | float] = []
    for row in np.flatnonzero(~undecided):
        values = actual.reshape(-1)[places[row]]
        order = np.argsort(values, kind="stable")
        match = _match_set if output.arg.compare == "set" else _match_sorted
        left, lacking = match(values[order], expected[row], allowed[row])
        extra += [int(place) for place in places[row][order[left]]]
        missing += [expected[row][at].item() for at in lacking]
    return _mismatches(output, sorted(extra), missing)


def _rows(array: Array, in_rows: bool) -> Array:
    return array.reshape(-1, array.shape[-1]) if in_rows else array.reshape(1, -1)


def _comparable(output: UnorderedOutput) -> tuple[Array, Array]:
    """Return both sides in one dtype, the expected values in rows: integers exactly, everything else in fp64."""
    actual, expected = output.actual, _rows(output.expected, output.in_rows)
    if actual.dtype.kind in "iu" and expected.dtype.kind in "iu":
        # A result that exceeds the output's dtype wraps, as the conversion in C does, which changes the order.
        is_bool = output.arg.dtype == "bool"
        return actual, np.sort((expected != 0 if is_bool else expected).astype(actual.dtype), axis=1)
    stored = numpy_dtype(output.arg.dtype)
    wide = expected.astype(np.float64)
    if stored.kind not in "iub":
        # The fp64 reference does not overflow where the output's format does.
        with np.errstate(over="ignore"):
            wide = np.where(np.isinf(expected.astype(stored).astype(np.float64)), np.sign(wide) * np.inf, wide)
    return actual.astype(np.float64), wide


def _match_sorted(actual: Array, expected: Array, allowed: Array) -> tuple[list[int], list[int]]:
    """Return the positions of unmatched actual and of unmatched expected values, both sides being sorted."""
    # The walk below is a Python loop: an output that is right, which most are, needs none.
    if actual.size == expected.size and bool(np.all(_close(actual, expected, allowed))):
        return [], []
    extra: list[int] = []
    missing: list[int] = []
    left = right = 0
    while left < actual.size and right < expected.size:
        if _close(actual[left : left + 1], expected[right : right + 1], allowed[right : right + 1])[0]:
            left, right = left + 1, right + 1
        # NaN sorts behind every number, so it is the larger side.
        elif actual[left] < expected[right] or _is_nan(expected[right]):
            extra.append(left)
            left += 1
        else:
            missing.append(right)
            right += 1
    return [*extra, *range(left, actual.size)], [*missing, *range(right, expected.size)]


def _match_set(actual: Array, expected: Array, allowed: Array) -> tuple[list[int], list[int]]:
    """Return the positions of actual values without an expected one, and the reverse, both sides being sorted."""
    if not actual.size or not expected.size:
        return list(range(actual.size)), list(range(expected.size))
    extra = ~_has_neighbour(actual, expected, allowed, budget_of_other=True)
    missing = ~_has_neighbour(expected, actual, allowed, budget_of_other=False)
    return [int(at) for at in np.flatnonzero(extra)], [int(at) for at in np.flatnonzero(missing)]


def _has_neighbour(values: Array, others: Array, allowed: Array, *, budget_of_other: bool) -> Mask:
    """Mark the values that are within the budget of the next smaller or next larger of ``others``."""
    found = np.zeros(values.shape, dtype=np.bool_)
    above = np.searchsorted(others, values)
    # The nearest value of a sorted sequence is on one of the two sides of the place of insertion.
    for near in (above - 1, above):
        at = np.clip(near, 0, others.size - 1)
        found |= _close(values, others[at], allowed[at] if budget_of_other else allowed)
    return found


def _close(actual: Array, expected: Array, allowed: Array) -> Mask:
    if actual.dtype.kind in "iu" and expected.dtype == actual.dtype:
        return np.asarray(integer_distance(actual, expected) <= allowed)
    with np.errstate(invalid="ignore"):
        both_nan = (actual != actual) & (expected != expected)
        return np.asarray((actual == expected) | both_nan | (np.abs(actual - expected) <= allowed))


def _is_nan(value: object) -> bool:
    return bool(value != value)


def _mismatches(output: UnorderedOutput, extra: list[int], missing: list[int | float]) -> list[Mismatch]:
    arg, case, size = output.arg, output.case, output.expected.size
    lacks = f"{number(missing[0])} is missing" if missing else ""
    # A value that is there has a store to point at; one that is missing has none, and is then part of the message.
    if extra:
        wrong = np.zeros(output.actual.size, dtype=np.bool_)
        wrong[extra] = True
        index = tuple(int(at) for at in np.unravel_index(extra[0], output.actual.shape))
        value = output.actual[index]
        # Zero tolerance: a value just outside the budget of an expected one is another value, and not a repetition.
        repeated = bool(np.any(_close(np.full(size, value), output.expected.reshape(-1), np.zeros(size))))
        how = "more often than expected" if repeated else "which is not among the expected values"
        text = f"{number(value)}, {how}; {lacks}" if missing else f"{number(value)}, {how}"
        elements = WrongElements(arg, case, wrong.reshape(output.actual.shape), index)
        deviation = Deviation(missing[0] if missing else None, value.item())
        return [describe(_RULE, elements, text, deviation)]
    if not missing:
        return []
    message = with_dims(f"{arg.param} lacks {len(missing)} of {size} expected values: {lacks}", case.dims)
    return [Mismatch(_RULE, arg.param, message, len(missing), size, expected=missing[0])]

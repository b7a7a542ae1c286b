"""Mismatches between a kernel's outputs and what is expected, and their messages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.fuzz.dtypes import numpy_dtype
from gpuemu_lsp.engine.fuzz.model import Case
from gpuemu_lsp.engine.fuzz.pack import byte_offset
from gpuemu_lsp.engine.plan.model import TensorArg

Mask: TypeAlias = npt.NDArray[np.bool_]

_LISTED = 8
"""Wrong elements that a mismatch lists by index."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One rule that one output (or input) breaks, with the elements that break it.

    ``index`` is the worst element and ``first`` the first one in C order; ``expected``, ``actual``, ``error`` and
    ``allowed`` belong to the worst. ``ratio`` is error over allowed error, ``ulps`` the error in units in the last
    place of the output's format. ``offset`` is the worst element's position in its buffer in bytes and ``size`` its
    length, as a :class:`~gpuemu_lsp.engine.execution.Watch` takes them. ``wrong`` marks all wrong elements.
    ``severity`` None means that of the rule.
    """

    rule: str
    param: str
    message: str
    count: int
    total: int
    index: tuple[int, ...] = ()
    first: tuple[int, ...] = ()
    expected: float | int | None = None
    actual: float | int | None = None
    error: float | None = None
    allowed: float | None = None
    ratio: float = float("inf")
    ulps: float | None = None
    offset: int = 0
    size: int = 0
    severity: Severity | None = None
    elements: tuple[tuple[int, ...], ...] = ()
    wrong: Mask | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ComparisonResult:
    """Mismatches of one launch, worst first, and the errors of its outputs.

    ``worst`` is the largest error as a fraction of the allowed error. ``decided`` of ``elements`` output elements were
    compared with the reference; rounding explains any value of the others. A check in which no case decided any
    element has not verified the kernel.

    ``max_diff`` is the largest absolute error and ``relative`` the largest error over the largest magnitude of its
    output (normwise, Higham, section 1.2), both of finite elements. Neither depends on a tolerance, so that two
    versions of a kernel can be compared by them. ``needed`` has, by dtype of float outputs, the smallest ``t`` for
    which ``|out - ref| <= t + t * |ref|`` holds.
    """

    mismatches: tuple[Mismatch, ...] = ()
    worst: float = 0.0
    decided: int = 0
    elements: int = 0
    max_diff: float = 0.0
    relative: float = 0.0
    needed: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class WrongElements:
    """Elements of one tensor that break a rule: ``wrong`` marks them, ``worst`` is the index of the worst."""

    arg: TensorArg
    case: Case
    wrong: Mask
    worst: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Deviation:
    """Value of the worst element and its error; fields as in :class:`Mismatch`."""

    expected: float | int | None = None
    actual: float | int | None = None
    error: float | None = None
    allowed: float | None = None
    ratio: float = float("inf")
    ulps: float | None = None


def describe(
    rule: str,
    elements: WrongElements,
    text: str,
    deviation: Deviation | None = None,
    severity: Severity | None = None,
) -> Mismatch:
    """Build a mismatch; ``text`` continues the message after the name of the worst element."""
    arg, case, wrong, index = elements.arg, elements.case, elements.wrong, elements.worst
    deviation = deviation or Deviation()
    count, total = int(np.count_nonzero(wrong)), int(wrong.size)
    listed = [tuple(int(i) for i in place) for place in np.argwhere(wrong)[:_LISTED]]
    # "y[3] was never written", but "y[3] = 4.5, expected 3".
    joint = " " if text.startswith(("was ", "breaks")) else " = "
    message = f"{_element(arg.param, index)}{joint}{text}{_extent(arg.param, index, listed[0], (count, total))}"
    return Mismatch(
        rule=rule,
        param=arg.param,
        message=with_dims(message, case.dims),
        count=count,
        total=total,
        index=index,
        first=listed[0],
        expected=deviation.expected,
        actual=deviation.actual,
        error=deviation.error,
        allowed=deviation.allowed,
        ratio=deviation.ratio,
        ulps=deviation.ulps,
        offset=byte_offset(arg, case, index),
        size=int(numpy_dtype(arg.dtype).itemsize),
        severity=severity,
        elements=tuple(listed),
        wrong=wrong,
    )


def _extent(param: str, index: tuple[int, ...], first: tuple[int, ...], number_of: tuple[int, int]) -> str:
    """Return how many elements of all are wrong, if there are several, and the first of them."""
    count, total = number_of
    if count <= 1:
        return ""
    # The worst element is the most convincing one, the first the one to look for in a debugger.
    return f"; {count} of {total} elements" + (f", first at {_element(param, first)}" if first != index else "")


def undefined_message(mismatch: Mismatch, dims: Mapping[str, int]) -> str:
    """Return the message of a mismatch whose worst element depends on uninitialised memory, without its value."""
    name = _element(mismatch.param, mismatch.index)
    expected = "" if mismatch.expected is None else f", expected {number(mismatch.expected)}"
    extent = _extent(mismatch.param, mismatch.index, mismatch.first, (mismatch.count, mismatch.total))
    return with_dims(f"{name} depends on uninitialized memory{expected}{extent}", dims)


def with_dims(message: str, dims: Mapping[str, int]) -> str:
    """Return the message followed by the sizes of its case."""
    return f"{message}; {', '.join(f'{name} = {size}' for name, size in dims.items())}" if dims else message


def _element(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"


def number(value: object) -> str:
    """Return a number as messages show it: seven significant digits, integers in full."""
    if isinstance(value, int | np.integer):
        return str(int(value))  # fp64 has the integers up to 2**53 only
    real = float(value)  # type: ignore[arg-type]
    if np.isnan(real):
        return "NaN"
    if np.isinf(real):
        return "Inf" if real > 0 else "-Inf"
    # Seven digits distinguish neighbouring fp32 values of ordinary size; integers of 15 digits are exact in fp64.
    return f"{real:.7g}" if real != int(real) or abs(real) >= 1e15 else str(int(real))


def largest_at(values: npt.NDArray[np.generic]) -> tuple[int, ...]:
    """Return the index of the largest value, one number per dimension; of equal ones the first."""
    # Plain ints: NumPy integers have no JSON form.
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))

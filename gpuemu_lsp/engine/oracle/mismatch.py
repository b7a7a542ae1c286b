"""A mismatch, and the words that tell it."""

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


@dataclass(frozen=True, slots=True)
class Mismatch:
    """One way in which one output (or input) is wrong.

    ``index`` is the worst element and ``first`` the first one; ``expected``, ``actual``, ``error`` and ``allowed`` are
    that of the worst. ``ratio`` is error over allowed, ``ulps`` the error in units of the output's last place.
    ``offset`` is where the worst element lies in its buffer, in bytes, ``size`` how long it is: a
    :class:`~gpuemu_lsp.engine.execution.Watch`. ``wrong`` marks all wrong elements. ``severity`` None means the rule's.
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
    """The mismatches, worst first, and the largest error as a fraction of what was allowed.

    ``max_diff`` is the largest absolute error, ``relative`` the largest error over the largest magnitude of its output
    (normwise, Higham, section 1.2), both of finite elements: they depend on no tolerance, so two versions of a kernel
    can be compared by them.
    ``decided`` of ``elements`` output elements were compared with the reference; about the others nothing can be said.
    A check in which no case decided anything has not judged the kernel.
    ``needed`` has, by the dtype of float outputs, the least ``t`` for which ``|out - ref| <= t + t * |ref|`` holds.
    """

    mismatches: tuple[Mismatch, ...] = ()
    worst: float = 0.0
    decided: int = 0
    elements: int = 0
    max_diff: float = 0.0
    relative: float = 0.0
    needed: Mapping[str, float] = field(default_factory=dict)


def describe(
    rule: str,
    arg: TensorArg,
    case: Case,
    wrong: Mask,
    index: tuple[int, ...],
    text: str,
    expected: float | int | None = None,
    actual: float | int | None = None,
    error: float | None = None,
    allowed: float | None = None,
    ratio: float = float("inf"),
    ulps: float | None = None,
    severity: Severity | None = None,
) -> Mismatch:
    """Build a mismatch of the elements marked in ``wrong``; ``text`` goes on after the name of the worst one."""
    count, total = int(np.count_nonzero(wrong)), int(wrong.size)
    places = [tuple(int(i) for i in place) for place in np.argwhere(wrong)[:_LISTED]]
    joint = " " if text.startswith(("was ", "breaks")) else " = "
    message = f"{_element(arg.param, index)}{joint}{text}"
    if count > 1:
        message += f"; {count} of {total} elements"
        if places[0] != index:
            message += f", first at {_element(arg.param, places[0])}"
    return Mismatch(
        rule=rule,
        param=arg.param,
        message=with_dims(message, case),
        count=count,
        total=total,
        index=index,
        first=places[0],
        expected=expected,
        actual=actual,
        error=error,
        allowed=allowed,
        ratio=ratio,
        ulps=ulps,
        offset=byte_offset(arg, case, index),
        size=int(numpy_dtype(arg.dtype).itemsize),
        severity=severity,
        elements=tuple(places),
        wrong=wrong,
    )


def with_dims(message: str, case: Case) -> str:
    """Return the message with the sizes that show it."""
    if not case.dims:
        return message
    return f"{message}; {', '.join(f'{name} = {size}' for name, size in case.dims.items())}"


def _element(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]"


def number(value: object) -> str:
    """Return a number for a message."""
    real = float(value)  # type: ignore[arg-type]
    if np.isnan(real):
        return "NaN"
    if np.isinf(real):
        return "Inf" if real > 0 else "-Inf"
    return f"{real:.7g}" if real != int(real) or abs(real) >= 1e15 else str(int(real))


def largest_at(values: npt.NDArray[np.generic]) -> tuple[int, ...]:
    """Return the index of the largest value, the first of equals."""
    return tuple(int(i) for i in np.unravel_index(int(np.argmax(values)), values.shape))

"""Records of a gradient check, and the arguments of an operation by name, for every framework."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from gpuemu.derived_budget import DerivedVerdict
from gpuemu.differences import WrongElement
from gpuemu.verifier.values import Array

Inputs: TypeAlias = "Mapping[str, Any] | Sequence[Any]"


@dataclass(frozen=True, slots=True)
class GradientFailure:
    """One way in which an operation is wrong. ``tensor`` is an output or ``grad of NAME``; ``variant`` the layout."""

    kind: str
    tensor: str
    message: str
    variant: str = "contiguous"
    index: tuple[int, ...] = ()
    expected: float | None = None
    actual: float | None = None


@dataclass(frozen=True, slots=True)
class GradientCheck:
    """Result of a gradient check. ``method`` is ``reference`` or ``finite differences``."""

    method: str
    compared: int
    failures: tuple[GradientFailure, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether gradients were compared and none is wrong."""
        return self.compared > 0 and not self.failures

    def __bool__(self) -> bool:
        return self.passed


class GradientNotCheckedError(RuntimeError):
    """No gradient could be compared. The message says why."""


def named(inputs: Inputs) -> dict[str, Any]:
    """Return arguments by name; those of a sequence are ``arg0``, ``arg1``, ..."""
    return dict(inputs) if isinstance(inputs, Mapping) else {f"arg{i}": one for i, one in enumerate(inputs)}


def accepts(function: Callable[..., Any], names: Mapping[str, Any]) -> bool:
    """Return whether a function can be called with arguments by these names."""
    try:
        inspect.signature(function).bind(**names)
    except (TypeError, ValueError):
        return False
    return True


def called_by_name(function: Callable[..., Any], values: Mapping[str, Any]) -> Any:
    """Call a function that :func:`accepts` the names, by position where its parameters allow that.

    A ``tf.custom_gradient`` is not used for arguments by keyword.
    """
    bound = inspect.signature(function).bind(**values)
    return function(*bound.args, **bound.kwargs)


def gradient_failure(name: str, wrong: WrongElement) -> GradientFailure:
    """Return the failure of a gradient that differs from finite differences."""
    message, tensor = wrong.message(name), f"grad of {name}"
    return GradientFailure(
        "ToleranceExceeded", tensor, message, "contiguous", wrong.index, wrong.expected, wrong.actual
    )


def failures_of(
    verdict: DerivedVerdict, actual: Mapping[str, Array], variant: str, atol: float | None, rtol: float | None
) -> Iterator[GradientFailure]:
    """Yield the failures of results and gradients whose error exceeds the tolerance, or the derived budget without one.

    ``actual`` has the arrays by the names of the verdict's outputs.
    """
    for mismatch in verdict.mismatches:
        wrong = mismatch.wrong
        if wrong is None:
            yield GradientFailure("ShapeMismatch", mismatch.param, mismatch.message, variant)
            continue
        exact = verdict.expected[mismatch.param]
        values = actual[mismatch.param].astype(np.float64)
        budget = verdict.allowed.get(mismatch.param)
        if atol is not None or rtol is not None:
            budget = (atol or 0.0) + (rtol or 0.0) * np.abs(exact)
        error = np.abs(values - exact)
        with np.errstate(invalid="ignore"):
            beyond = ~(error <= budget) & ~(np.isnan(values) & np.isnan(exact)) & wrong.reshape(exact.shape)
        if not beyond.any():
            continue
        at = np.unravel_index(int(np.argmax(np.where(beyond, np.nan_to_num(error, nan=np.inf), -1.0))), exact.shape)
        index = tuple(int(i) for i in at)
        out, right = float(values[index]), float(exact[index])
        kind = "NaNDetected" if np.isnan(out) else "ToleranceExceeded"
        message = (
            f"{mismatch.param}{list(index) if index else ''} = {out:.7g}, expected {right:.7g}; "
            f"{int(beyond.sum())} of {beyond.size} elements differ"
        )
        yield GradientFailure(kind, mismatch.param, message, variant, index, right, out)

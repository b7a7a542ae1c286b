"""The decorator that puts a function under check."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from gpuemu.verifier.checker import EquivalenceChecker
from gpuemu.verifier.comparison import DEFAULT_ATOL, DEFAULT_RTOL, Tolerance
from gpuemu.verifier.operations import FailureCallback, Operation, register
from gpuemu.verifier.outliers import (
    ExecutionOutlierDetector,
    ExponentialRunningCentroidExecutionOutlierDetector,
)

_P = ParamSpec("_P")
_R = TypeVar("_R")


def equivalent(
    ground_truth_function: Callable[..., Any],
    failure_callback: FailureCallback | None = None,
    *,
    rtol: float | None = None,
    atol: float | None = None,
    outlier_detector: ExecutionOutlierDetector | None = None,
    equal_nan: bool = True,
) -> Callable[[Callable[_P, _R]], Callable[_P, _R]]:
    """Return a decorator that compares calls of a function with ``ground_truth_function``.

    Nothing is compared until :meth:`EquivalenceChecker.start` is called.

    Parameters
    ----------
    ground_truth_function : Callable
        A correct function with the same arguments and the same structure of results.
    failure_callback : Callable, optional
        Called in the checker's thread with :class:`FailureCallbackArgs`. What it raises is raised again by the next
        call. Without one, failures are logged.
    rtol, atol : float, optional
        Allowed error of floating-point results, ``atol + rtol * |expected|``. Integers must be equal.
    outlier_detector : ExecutionOutlierDetector, optional
        Decides which calls are checked besides the random sample, by their tensor arguments.
    equal_nan : bool
        Whether NaN equals NaN.
    """
    given = rtol is not None or atol is not None
    tolerance = Tolerance(
        DEFAULT_RTOL if rtol is None else rtol, DEFAULT_ATOL if atol is None else atol, given, equal_nan
    )

    def decorate(function: Callable[_P, _R]) -> Callable[_P, _R]:
        name = f"{getattr(function, '__module__', '')}:{getattr(function, '__qualname__', type(function).__name__)}"
        detector = outlier_detector or ExponentialRunningCentroidExecutionOutlierDetector()
        operation = Operation(name, function, ground_truth_function, failure_callback, tolerance, detector)
        register(operation)
        checker = EquivalenceChecker

        @functools.wraps(function)
        def checked(*args: _P.args, **kwargs: _P.kwargs) -> _R:
            if not checker._active:
                return function(*args, **kwargs)
            pending = checker._observe_call(operation, args, kwargs)
            result = function(*args, **kwargs)
            if pending is not None:
                checker._observe_result(pending, result)
            return result

        checked.operation = operation  # type: ignore[attr-defined]
        return checked

    return decorate

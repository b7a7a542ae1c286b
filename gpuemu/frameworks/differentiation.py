"""Gradient checks for frameworks whose tensors do not change and have no layouts: JAX and TensorFlow.

PyTorch's checks (:mod:`.gradients`) also vary memory layouts and look for changes in place.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import numpy as np

from gpuemu.derived_budget import judge_result
from gpuemu.differences import STEP, compared
from gpuemu.frameworks.gradient_records import (
    GradientCheck,
    GradientFailure,
    GradientNotCheckedError,
    Inputs,
    accepts,
    called_by_name,
    failures_of,
    gradient_failure,
    named,
)
from gpuemu.frameworks.reference_gradients import cotangent_of
from gpuemu.frameworks.subgradients import with_subgradients
from gpuemu.verifier.values import Array, as_array, leaves

Pullback: TypeAlias = "Callable[[Mapping[str, Array]], dict[str, Any]]"
"""Returns the vector-Jacobian products by input for cotangents by path; None where a result does not depend on it."""


class Framework(Protocol):
    """What a gradient check needs of a framework."""

    def tensor(self, value: Any) -> Any:
        """Return an array as a tensor, any other value as it is."""

    def is_differentiable(self, value: Any) -> bool:
        """Return whether a value is a tensor of real floating-point numbers."""

    def in_fp64(self) -> AbstractContextManager[object]:
        """Let the framework compute in fp64."""

    def differentiated(
        self, function: Callable[[Mapping[str, Any]], Mapping[str, Any]], given: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Pullback]:
        """Return the results of a function by path, and its pullback."""

    def rounded(
        self, function: Callable[[Mapping[str, Any]], tuple[Any, ...]], given: Mapping[str, Array]
    ) -> tuple[Any, ...] | None:
        """Return the results with rounding errors in every operation; None if it cannot do that."""

    def precisions(
        self, function: Callable[[Mapping[str, Any]], tuple[Any, ...]], given: Mapping[str, Any]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return formats of the arithmetic that tensors do not show, and narrow ones that each operation rounds to."""


@dataclass(frozen=True, slots=True)
class NamedCall:
    """A function of a framework with its arguments by name."""

    framework: Framework
    function: Callable[..., Any]
    inputs: Mapping[str, Any]
    by_name: bool

    @classmethod
    def of(cls, framework: Framework, function: Callable[..., Any], inputs: Inputs) -> NamedCall:
        """Return a function with arguments by name or by position; arrays become tensors."""
        values = {name: framework.tensor(value) for name, value in named(inputs).items()}
        return cls(framework, function, values, isinstance(inputs, Mapping) and accepts(function, values))

    @property
    def differentiable(self) -> tuple[str, ...]:
        """The names of the inputs whose gradients are checked."""
        return tuple(name for name, one in self.inputs.items() if self.framework.is_differentiable(one))

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tensors of the result by path."""
        given = {**self.inputs, **values}
        result = called_by_name(self.function, given) if self.by_name else self.function(*given.values())
        found = {path: leaf for path, leaf in leaves(result).items() if hasattr(leaf, "dtype")}
        if not found:
            raise GradientNotCheckedError("the function returned no tensor")
        return found


def checked_gradients(
    framework: Framework,
    op: Callable[..., Any],
    inputs: Inputs,
    reference: Callable[..., Any] | None,
    *,
    seed: int,
    atol: float | None,
    rtol: float | None,
) -> GradientCheck:
    """Compare results and gradients of an operation with those of a reference, or with finite differences.

    Parameters are those of ``check_backward`` of the framework's module.

    Raises
    ------
    GradientNotCheckedError
        If nothing could be compared.
    """
    call = NamedCall.of(framework, op, inputs)
    if not call.differentiable:
        raise GradientNotCheckedError("no input is a floating-point tensor")
    if reference is None:
        return _against_differences(call, seed, atol, rtol)
    expected = NamedCall(
        framework, reference, call.inputs, isinstance(inputs, Mapping) and accepts(reference, named(inputs))
    )
    given = {name: call.inputs[name] for name in call.differentiable}
    try:
        results, pullback = framework.differentiated(call, given)
        cotangents = _cotangents(framework, results, seed)
        grads = {f"grad of {name}": grad for name, grad in pullback(cotangents).items()}
    except GradientNotCheckedError:
        raise
    except Exception as error:
        failure = GradientFailure("ExecutionError", "op", f"{type(error).__name__}: {error}")
        return GradientCheck("reference", 0, (failure,))
    actual = {f"result {path}".rstrip(): as_array(one) for path, one in results.items()}
    # No gradient is one of zero, in the dtype of the input.
    for name, grad in grads.items():
        like = as_array(given[name.removeprefix("grad of ")])
        actual[name] = np.zeros_like(like) if grad is None else as_array(grad)
    arrays = {name: as_array(one) for name, one in given.items()}
    precisions, rounded = framework.precisions(_differentiated(call, tuple(results), cotangents), given)
    function = _exact(expected, tuple(results), cotangents)
    verdict = judge_result(function, arrays, actual, precisions=precisions, rounded=rounded)
    if verdict is None:
        raise GradientNotCheckedError("the reference cannot be differentiated in fp64")
    actual = with_subgradients(function, arrays, verdict, actual)
    return GradientCheck("reference", verdict.decided, tuple(failures_of(verdict, actual, "contiguous", atol, rtol)))


def _differentiated(
    call: NamedCall, paths: tuple[str, ...], cotangents: Mapping[str, Array]
) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return the results and gradients as a function of tensors."""

    def function(given: Mapping[str, Any]) -> tuple[Any, ...]:
        results, pullback = call.framework.differentiated(call, given)
        if tuple(results) != paths:
            raise ValueError("the reference has another structure of results")
        found = pullback(cotangents)
        grads = [given[name] * 0 if grad is None else grad for name, grad in found.items()]
        return (*results.values(), *grads)

    return function


def _exact(
    expected: NamedCall, paths: tuple[str, ...], cotangents: Mapping[str, Array]
) -> Callable[[Mapping[str, Any]], tuple[Any, ...]]:
    """Return the results and gradients of the reference as a function of arrays in fp64."""
    framework, differentiated = expected.framework, _differentiated(expected, paths, cotangents)

    def function(values: Mapping[str, Any]) -> tuple[Any, ...]:
        with framework.in_fp64():
            rounded = framework.rounded(differentiated, values)
            if rounded is not None:
                return rounded
            given = {name: framework.tensor(np.array(value)) for name, value in values.items()}
            return tuple(as_array(one) for one in differentiated(given))

    return function


def _against_differences(call: NamedCall, seed: int, atol: float | None, rtol: float | None) -> GradientCheck:
    framework = call.framework
    centre = {name: as_array(call.inputs[name]).astype(np.float64) for name in call.differentiable}
    with framework.in_fp64():
        given = {name: framework.tensor(value) for name, value in centre.items()}
        try:
            results, pullback = framework.differentiated(call, given)
        except GradientNotCheckedError:
            raise
        except Exception as error:
            why = f"the operation does not run in fp64 ({type(error).__name__}: {error}); pass a reference"
            raise GradientNotCheckedError(why) from error
        cotangents = _cotangents(framework, results, seed)
        if any(as_array(results[path]).dtype != np.float64 for path in cotangents):
            raise GradientNotCheckedError("the operation computes in less than fp64; pass a reference")
        grads = {name: None if grad is None else as_array(grad) for name, grad in pullback(cotangents).items()}

        def loss(values: Mapping[str, Array]) -> float:
            found = call({name: framework.tensor(value) for name, value in values.items()})
            return sum(float((as_array(found[path]) * one).sum()) for path, one in cotangents.items())

        failures, total = list[GradientFailure](), 0
        for name in centre:
            wrong, count = compared(loss, centre, name, grads[name], (atol, rtol), STEP, seed)
            total += count
            if wrong is not None:
                failures.append(gradient_failure(name, wrong))
    return GradientCheck("finite differences", total, tuple(failures))


def _cotangents(framework: Framework, results: Mapping[str, Any], seed: int) -> dict[str, Array]:
    """Return random cotangents of the results that have a gradient, in fp64."""
    found = {
        path: cotangent_of(tuple(one.shape), seed + number)
        for number, (path, one) in enumerate(results.items())
        if framework.is_differentiable(one)
    }
    if not found:
        raise GradientNotCheckedError("no result has a gradient")
    return found

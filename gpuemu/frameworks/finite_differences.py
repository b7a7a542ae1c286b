"""Gradients compared with finite differences of the operation itself, in fp64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from gpuemu.frameworks.gradient_calls import (
    Call,
    GradientCheck,
    GradientFailure,
    GradientNotCheckedError,
    Inputs,
    cotangents_of,
    gradients_of,
)

_STEP = 1e-3
"""First step of a finite difference, relative to the magnitude of the element, in fp64. It is halved once."""
_MOST_ELEMENTS = 256
"""Elements of one input whose gradient is compared with finite differences."""


def check_autograd(
    op: Callable[..., Any],
    inputs: Inputs,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
    check_inputs: Sequence[str] | None = None,
) -> bool:
    """Return whether the gradients of an operation agree with finite differences in fp64.

    Parameters are those of the original; ``eps`` is the relative step, and ``check_inputs`` names the inputs to check.
    """
    call = Call(op, inputs)
    if check_inputs is not None:
        call.differentiable = [name for name in call.differentiable if name in check_inputs]
    if not call.differentiable:
        raise GradientNotCheckedError("no input is a floating-point tensor")
    return compare_with_differences(call, 0, atol, rtol, eps or _STEP).passed


def validate_custom_autograd_function(
    func_class: type[Any],
    inputs: Inputs,
    eps: float | None = None,
    atol: float | None = None,
    rtol: float | None = None,
) -> dict[str, Any]:
    """Return whether ``forward`` runs and ``backward`` agrees with finite differences: ``forward_ok``, ``backward_ok``.

    ``details`` has the messages of failures.
    """
    values = list(inputs.values()) if isinstance(inputs, Mapping) else list(inputs)
    try:
        func_class.apply(*values)
    except Exception as error:
        return {"forward_ok": False, "backward_ok": False, "details": [f"{type(error).__name__}: {error}"]}
    call = Call(func_class.apply, values)
    found = compare_with_differences(call, 0, atol, rtol, eps or _STEP)
    return {"forward_ok": True, "backward_ok": found.passed, "details": [one.message for one in found.failures]}


def compare_with_differences(
    call: Call, seed: int, atol: float | None, rtol: float | None, step: float = _STEP
) -> GradientCheck:
    """Compare the gradients of an operation with central differences of its own results in fp64."""
    wide = {name: call.inputs[name].detach().double() for name in call.differentiable}
    given = {name: tensor.clone().requires_grad_() for name, tensor in wide.items()}
    try:
        results = call(given)
    except Exception as error:
        why = f"the operation does not run in fp64 ({type(error).__name__}: {error}); pass a reference"
        raise GradientNotCheckedError(why) from error
    cotangents = cotangents_of(results, seed, wide=True)
    if any(one.dtype != torch.float64 for one in results.values() if one.is_floating_point()):
        raise GradientNotCheckedError("the operation computes in less than fp64; pass a reference")
    if not cotangents:
        raise GradientNotCheckedError("no result has a gradient")
    grads = gradients_of(results, cotangents, given, retain=False)

    def loss(values: Mapping[str, Any]) -> float:
        with torch.no_grad():
            found = call(values)
            return sum(float((found[path].double() * one).sum()) for path, one in cotangents.items())

    failures, compared = list[GradientFailure](), 0
    for name, tensor in wide.items():
        wrong, count = _compared(loss, wide, name, grads[f"grad of {name}"], (atol, rtol), step, seed)
        compared += count
        if wrong:
            failures.append(_failure(name, tensor, wrong, count))
    return GradientCheck("finite differences", compared, tuple(failures))


def numeric_gradient(
    loss: Callable[[Mapping[str, Any]], float],
    values: Mapping[str, Any],
    name: str,
    grad: Any,
    atol: float,
    rtol: float,
) -> str | None:
    """Compare a gradient with finite differences of ``loss``; return the message of a difference."""
    # Rounding of the gradient itself is relative to its largest elements.
    scale = 0.0 if grad is None else float(grad.detach().abs().max().double())
    wrong, count = _compared(loss, values, name, grad, (atol + 1e-2 * rtol * scale, rtol), _STEP, 0)
    return _failure(name, values[name], wrong, count).message if wrong else None


_Wrong = tuple[int, float, float]
"""Place, expected and actual value of an element."""


def _compared(
    loss: Callable[[Mapping[str, Any]], float],
    values: Mapping[str, Any],
    name: str,
    grad: Any,
    tolerance: tuple[float | None, float | None],
    step: float,
    seed: int,
) -> tuple[list[_Wrong], int]:
    """Return the wrong elements of a gradient, and the number of those compared."""
    count = values[name].numel()
    places = np.sort(np.random.default_rng(seed).permutation(count)[:_MOST_ELEMENTS])
    flat = torch.zeros(count, dtype=torch.float64) if grad is None else grad.detach().double().cpu().reshape(-1)
    atol, rtol = tolerance
    wrong = []
    for place in map(int, places):
        estimate, bound = _difference(loss, values, name, place, step)
        allowed = bound if atol is None and rtol is None else (atol or 0.0) + (rtol or 0.0) * abs(estimate) + bound
        if not abs(float(flat[place]) - estimate) <= allowed:
            wrong.append((place, estimate, float(flat[place])))
    return wrong, len(places)


def _failure(name: str, tensor: Any, wrong: list[_Wrong], count: int) -> GradientFailure:
    place, estimate, actual = max(wrong, key=lambda one: np.nan_to_num(abs(one[2] - one[1]), nan=np.inf))
    index = tuple(int(i) for i in np.unravel_index(place, tuple(tensor.shape)))
    message = (
        f"grad of {name}{list(index) if index else ''} = {actual:.7g}, expected {estimate:.7g} by finite differences; "
        f"{len(wrong)} of {count} elements differ"
    )
    return GradientFailure("ToleranceExceeded", f"grad of {name}", message, "contiguous", index, estimate, actual)


def _difference(
    loss: Callable[[Mapping[str, Any]], float], values: Mapping[str, Any], name: str, place: int, step: float
) -> tuple[float, float]:
    """Return a derivative by Richardson extrapolation of two central differences, and a bound of its error.

    The bound is infinite where the one-sided differences disagree, as at the corner of ``relu``: any subgradient is
    then correct.
    """

    def at(offset: float) -> float:
        moved = values[name].clone()
        moved.reshape(-1)[place] += offset
        return loss({**values, name: moved})

    size = step * max(1.0, abs(float(values[name].reshape(-1)[place])))
    centre = at(0.0)
    wide, narrow = (at(size), at(-size)), (at(size / 2), at(-size / 2))
    coarse, fine = (wide[0] - wide[1]) / (2 * size), (narrow[0] - narrow[1]) / size
    best = (4 * fine - coarse) / 3
    rounding = 2.0**-50 * (abs(centre) + max(map(abs, (*wide, *narrow)))) / size * 64
    # The error of a smooth function falls with the square of the step: the two central differences show its size.
    error = 4 * abs(fine - coarse) + rounding + 1e-7 * abs(best)
    jump = abs((narrow[0] - centre) - (centre - narrow[1])) / (size / 2)
    curvature = abs((wide[0] - centre) - (centre - wide[1])) / size
    # For a smooth function one-sided slopes differ by half as much at half the step; at a corner by as much.
    if jump > 0.75 * curvature and jump > 1e-3 * max(abs(best), 1e-6) and jump > 16 * rounding:
        return best, float("inf")
    return best, error

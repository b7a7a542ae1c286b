"""Gradients compared with finite differences of the operation itself, in fp64."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gpuemu.differences import STEP, compared
from gpuemu.frameworks.gradient_calls import Call, cotangents_of, gradients_of
from gpuemu.frameworks.gradient_records import (
    GradientCheck,
    GradientFailure,
    GradientNotCheckedError,
    Inputs,
    gradient_failure,
)
from gpuemu.verifier.values import Array, as_array


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
    return compare_with_differences(call, 0, atol, rtol, eps or STEP).passed


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
    found = compare_with_differences(call, 0, atol, rtol, eps or STEP)
    return {"forward_ok": True, "backward_ok": found.passed, "details": [one.message for one in found.failures]}


def compare_with_differences(
    call: Call, seed: int, atol: float | None, rtol: float | None, step: float = STEP
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

    weights = {path: as_array(one) for path, one in cotangents.items()}

    def loss(values: Mapping[str, Array]) -> float:
        moved = {name: torch.from_numpy(values[name]).to(tensor.device) for name, tensor in wide.items()}
        with torch.no_grad():
            found = call(moved)
        return sum(float((as_array(found[path]) * one).sum()) for path, one in weights.items())

    centre = {name: as_array(tensor) for name, tensor in wide.items()}
    failures, total = list[GradientFailure](), 0
    for name in wide:
        grad = grads[f"grad of {name}"]
        actual = None if grad is None else as_array(grad)
        wrong, count = compared(loss, centre, name, actual, (atol, rtol), step, seed)
        total += count
        if wrong is not None:
            failures.append(gradient_failure(name, wrong))
    return GradientCheck("finite differences", total, tuple(failures))

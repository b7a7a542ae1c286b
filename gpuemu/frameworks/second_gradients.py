"""Gradients of gradients of a PyTorch operation, compared with those of a reference."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from gpuemu.frameworks.gradient_calls import Call, cotangents_of
from gpuemu.frameworks.gradient_records import GradientCheck, GradientNotCheckedError, Inputs
from gpuemu.frameworks.gradients import check_backward


def check_double_backward(
    op: Callable[..., Any],
    inputs: Inputs,
    reference: Callable[..., Any] | None = None,
    *,
    seed: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
) -> GradientCheck:
    """Compare the gradients of an operation's gradients, as gradient penalties and Hessians need them.

    Parameters and errors are those of :func:`gpuemu.frameworks.pytorch.check_backward`, which is called with the
    gradient as the operation, of its inputs and the cotangents. Without a reference the gradients of the gradients are
    compared with finite differences of the gradients.

    Raises
    ------
    GradientNotCheckedError
        As ``check_backward``. A gradient that has none itself, as that of ``once_differentiable``, is a failure.
    """
    call = Call(op, inputs)
    if not call.differentiable:
        raise GradientNotCheckedError("no input is a floating-point tensor")
    results = call({name: call.inputs[name].detach().clone().requires_grad_() for name in call.differentiable})
    cotangents = cotangents_of(results, seed)
    if not cotangents:
        raise GradientNotCheckedError("no result has a gradient")
    given = [*(call.inputs[name].detach() for name in call.differentiable), *cotangents.values()]
    gradient = _gradient(call, tuple(cotangents))
    expected = None if reference is None else _gradient(Call(reference, inputs), tuple(cotangents))
    return check_backward(gradient, given, expected, seed=seed, atol=atol, rtol=rtol)


def _gradient(call: Call, paths: tuple[str, ...]) -> Callable[..., Any]:
    """Return the gradients as a function of the differentiable inputs, and the cotangents of these results."""

    def gradient(*values: Any) -> tuple[Any, ...]:
        names = call.differentiable
        with torch.enable_grad():
            tensors = {
                name: value if value.requires_grad else value.detach().requires_grad_()
                for name, value in zip(names, values, strict=False)
            }
            results = call(tensors)
            found = torch.autograd.grad(
                [results[path] for path in paths],
                list(tensors.values()),
                list(values[len(names) :]),
                create_graph=True,
                allow_unused=True,
                materialize_grads=True,
            )
        return tuple(found)

    return gradient

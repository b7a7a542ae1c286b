"""Gradients of a module as its result: how answers to a backward pass are compared."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch


def gradients(module: Any, forward: Callable[..., torch.Tensor], inputs: Sequence[Any]) -> tuple[torch.Tensor, ...]:
    """Return the gradients of the inputs and of the parameters of a module, zero where the result does not use one.

    The gradient of the result is that of a weighted sum: of a plain sum it would be 1 at each element, which hides an
    answer that ignores it.
    """
    with torch.enable_grad():
        values = [_leaf(value) if _has_gradient(value) else value for value in inputs]
        parameters = [parameter for parameter in module.parameters() if _has_gradient(parameter)]
        for parameter in parameters:
            parameter.requires_grad_()
        leaves = [value for value in values if _has_gradient(value)] + parameters
        result = forward(*values)
        weights = torch.arange(result.numel(), device=result.device).to(result.dtype).cos().reshape(result.shape)
        grads = torch.autograd.grad(result, leaves, weights, allow_unused=True)
    return tuple(torch.zeros_like(leaf) if grad is None else grad for leaf, grad in zip(leaves, grads, strict=True))


def _has_gradient(value: Any) -> bool:
    return isinstance(value, torch.Tensor) and value.is_floating_point()


def _leaf(value: torch.Tensor) -> torch.Tensor:
    return value.detach().requires_grad_()

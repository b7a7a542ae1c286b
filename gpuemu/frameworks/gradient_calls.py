"""Calls of a PyTorch operation with its gradients: arguments by name, and cotangents."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import torch

from gpuemu.frameworks.gradient_records import GradientNotCheckedError, Inputs, accepts, named
from gpuemu.verifier.values import leaves


class Call:
    """A function with its arguments by name."""

    def __init__(self, function: Callable[..., Any], inputs: Inputs) -> None:
        self.function = function
        self.inputs = named(inputs)
        self.by_name = isinstance(inputs, Mapping) and accepts(function, self.inputs)
        self.differentiable = [
            name for name, one in self.inputs.items() if isinstance(one, torch.Tensor) and one.is_floating_point()
        ]

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tensors of the result by path."""
        given = {**self.inputs, **values}
        result = self.function(**given) if self.by_name else self.function(*given.values())
        found = {path: leaf for path, leaf in leaves(result).items() if isinstance(leaf, torch.Tensor)}
        if not found:
            raise GradientNotCheckedError("the function returned no tensor")
        return found


def cotangents_of(results: Mapping[str, Any], seed: int, wide: bool = False) -> dict[str, Any]:
    """Return random cotangents of the results that have a gradient; they are exact in the results' dtypes."""
    generator = torch.Generator().manual_seed(seed)
    found = {}
    for path, result in results.items():
        # Eighths: exact in every format, so that the fp64 reference gets the same values.
        drawn = torch.randint(-16, 17, tuple(result.shape), generator=generator) / 8
        if result.is_floating_point() and result.requires_grad:
            found[path] = drawn.to(torch.float64 if wide else result.dtype).to(result.device)
    return found


def gradients_of(
    results: Mapping[str, Any], cotangents: Mapping[str, Any], given: Mapping[str, Any], retain: bool
) -> dict[str, Any]:
    """Return the vector-Jacobian products by ``grad of NAME``, None where the results do not depend on an input."""
    outputs = [results[path] for path in cotangents]
    found = torch.autograd.grad(
        outputs, list(given.values()), list(cotangents.values()), retain_graph=retain, allow_unused=True
    )
    return {f"grad of {name}": None if grad is None else grad.clone() for name, grad in zip(given, found, strict=True)}

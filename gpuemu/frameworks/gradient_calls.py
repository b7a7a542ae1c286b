"""Calls of an operation with its gradients: arguments by name, cotangents, and the records of a check."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import torch

from gpuemu.verifier.values import leaves

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


class Call:
    """A function with its arguments by name."""

    def __init__(self, function: Callable[..., Any], inputs: Inputs) -> None:
        self.function = function
        named = dict(inputs) if isinstance(inputs, Mapping) else {f"arg{i}": one for i, one in enumerate(inputs)}
        self.inputs: dict[str, Any] = named
        self.by_name = isinstance(inputs, Mapping) and _accepts(function, named)
        self.differentiable = [
            name for name, one in named.items() if isinstance(one, torch.Tensor) and one.is_floating_point()
        ]

    def __call__(self, values: Mapping[str, Any]) -> dict[str, Any]:
        """Return the tensors of the result by path."""
        given = {**self.inputs, **values}
        result = self.function(**given) if self.by_name else self.function(*given.values())
        found = {path: leaf for path, leaf in leaves(result).items() if isinstance(leaf, torch.Tensor)}
        if not found:
            raise GradientNotCheckedError("the function returned no tensor")
        return found


def _accepts(function: Callable[..., Any], names: Mapping[str, Any]) -> bool:
    try:
        inspect.signature(function).bind(**names)
    except (TypeError, ValueError):
        return False
    return True


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

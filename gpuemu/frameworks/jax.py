"""Validation of JAX functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuemu.frameworks.differentiation import checked_gradients
from gpuemu.frameworks.gradient_records import GradientCheck, GradientFailure, GradientNotCheckedError, Inputs
from gpuemu.frameworks.jax_arrays import JaxFramework
from gpuemu.frameworks.jax_validation import (
    check_grad_safe,
    check_jit_safe,
    check_pmap_compatible,
    check_vmap_compatible,
    fuzz_jax_op,
    validate_jax,
    validate_jax_primitive,
)
from gpuemu.results import ValidationError

__all__ = [
    "GradientCheck",
    "GradientFailure",
    "GradientNotCheckedError",
    "ValidationError",
    "check_backward",
    "check_grad_safe",
    "check_jit_safe",
    "check_pmap_compatible",
    "check_vmap_compatible",
    "fuzz_jax_op",
    "validate_jax",
    "validate_jax_primitive",
]


def check_backward(
    op: Callable[..., Any],
    inputs: Inputs,
    reference: Callable[..., Any] | None = None,
    *,
    seed: int = 0,
    atol: float | None = None,
    rtol: float | None = None,
) -> GradientCheck:
    """Compare results and gradients of a function with those of a reference.

    Parameters
    ----------
    op : Callable
        Called with the inputs by name, or by position if it has other names. Its gradients are those of ``jax.vjp``.
    inputs : Mapping or Sequence
        Arrays of JAX or NumPy, and other arguments. Gradients of all floating-point arrays are checked.
    reference : Callable, optional
        A differentiable JAX function of the same arguments, evaluated and differentiated in fp64. Without one,
        gradients are compared with finite differences of ``op`` itself in fp64, and its results are not checked.
    seed : int
        Seed of the cotangent.
    atol, rtol : float, optional
        Allowed error, ``atol + rtol * |expected|``; derived where neither is given.

    Raises
    ------
    GradientNotCheckedError
        If no input has a gradient, the reference fails in fp64, or ``op`` without a reference does not run in fp64.
    """
    return checked_gradients(JaxFramework(), op, inputs, reference, seed=seed, atol=atol, rtol=rtol)

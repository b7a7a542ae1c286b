"""Validation of TensorFlow functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gpuemu.frameworks.differentiation import checked_gradients
from gpuemu.frameworks.gradient_records import GradientCheck, GradientFailure, GradientNotCheckedError, Inputs
from gpuemu.frameworks.tensorflow_arrays import TensorflowFramework
from gpuemu.frameworks.tensorflow_validation import (
    check_keras_layer,
    check_tf_function_safe,
    check_xla_compatible,
    fuzz_tensorflow_op,
    validate_custom_gradient,
    validate_tensorflow,
)
from gpuemu.results import ValidationError

__all__ = [
    "GradientCheck",
    "GradientFailure",
    "GradientNotCheckedError",
    "ValidationError",
    "check_backward",
    "check_keras_layer",
    "check_tf_function_safe",
    "check_xla_compatible",
    "fuzz_tensorflow_op",
    "validate_custom_gradient",
    "validate_tensorflow",
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
        Called with the inputs by name, or by position if it has other names. Its gradients are those of
        ``tf.GradientTape``.
    inputs : Mapping or Sequence
        Tensors, variables, arrays of NumPy, and other arguments. Gradients of all floating-point tensors are checked.
    reference : Callable, optional
        A differentiable function of the same arguments, evaluated and differentiated in fp64: constants in it need the
        dtype of its arguments. Without one, gradients are compared with finite differences of ``op`` itself in fp64,
        and its results are not checked.
    seed : int
        Seed of the cotangent.
    atol, rtol : float, optional
        Allowed error, ``atol + rtol * |expected|``; derived where neither is given.

    Raises
    ------
    GradientNotCheckedError
        If no input has a gradient, the reference fails in fp64, or ``op`` without a reference does not run in fp64.
    """
    return checked_gradients(TensorflowFramework(), op, inputs, reference, seed=seed, atol=atol, rtol=rtol)

"""Validation of PyTorch operations."""

from __future__ import annotations

from gpuemu.frameworks.finite_differences import check_autograd, validate_custom_autograd_function
from gpuemu.frameworks.gradient_calls import GradientCheck, GradientFailure, GradientNotCheckedError
from gpuemu.frameworks.gradients import check_backward

__all__ = [
    "GradientCheck",
    "GradientFailure",
    "GradientNotCheckedError",
    "check_autograd",
    "check_backward",
    "validate_custom_autograd_function",
]

"""Validation of PyTorch operations."""

from __future__ import annotations

from gpuemu.frameworks.finite_differences import check_autograd, validate_custom_autograd_function
from gpuemu.frameworks.gradient_records import GradientCheck, GradientFailure, GradientNotCheckedError
from gpuemu.frameworks.gradients import check_backward
from gpuemu.frameworks.second_gradients import check_double_backward
from gpuemu.frameworks.validation import fuzz_pytorch_op, validate_pytorch
from gpuemu.results import ValidationError

__all__ = [
    "GradientCheck",
    "GradientFailure",
    "GradientNotCheckedError",
    "ValidationError",
    "check_autograd",
    "check_backward",
    "check_double_backward",
    "fuzz_pytorch_op",
    "validate_custom_autograd_function",
    "validate_pytorch",
]

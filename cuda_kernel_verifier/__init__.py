"""The import name of cuda-kernel-verifier, for programs written for it; see :mod:`gpuemu.verifier`."""

from __future__ import annotations

from gpuemu.verifier import (
    EquivalenceChecker,
    ExecutionOutlierDetector,
    ExponentialRunningCentroidExecutionOutlierDetector,
    FailureCallbackArgs,
    equivalent,
)

__all__ = [
    "EquivalenceChecker",
    "ExecutionOutlierDetector",
    "ExponentialRunningCentroidExecutionOutlierDetector",
    "FailureCallbackArgs",
    "equivalent",
]

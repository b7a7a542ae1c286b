"""Runtime verification: calls of a fast function are compared with a correct one while the program runs.

>>> from gpuemu.verifier import EquivalenceChecker, equivalent
>>> @equivalent(lambda x: x.sum(axis=1))
... def row_sum(x):
...     return fast_row_sum(x)
>>> EquivalenceChecker.start(execution_sample_probability=0.1)
>>> train(row_sum)
>>> print(EquivalenceChecker.stop())
2000 calls, 214 checked (11 for unusual inputs), 0 wrong
"""

from __future__ import annotations

from gpuemu.verifier.checker import EquivalenceChecker
from gpuemu.verifier.decorator import equivalent
from gpuemu.verifier.outliers import ExecutionOutlierDetector, ExponentialRunningCentroidExecutionOutlierDetector
from gpuemu.verifier.records import FailureCallbackArgs, FailureRecord, OperationStatistics, Report

__all__ = [
    "EquivalenceChecker",
    "ExecutionOutlierDetector",
    "ExponentialRunningCentroidExecutionOutlierDetector",
    "FailureCallbackArgs",
    "FailureRecord",
    "OperationStatistics",
    "Report",
    "equivalent",
]

"""Checked operations, and calls of them that wait for their check."""

from __future__ import annotations

import copy
import inspect
import itertools
import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from gpuemu.verifier.comparison import Tolerance
from gpuemu.verifier.outliers import ExecutionOutlierDetector
from gpuemu.verifier.records import FailureCallbackArgs, OperationStatistics
from gpuemu.verifier.values import tensors

FailureCallback = Callable[[FailureCallbackArgs], object]


@dataclass(eq=False, slots=True, weakref_slot=True)
class Operation:
    """A function under check, its ground truth, and the counts of its calls.

    ``name`` is ``module:qualified name``; ``detectors`` has a detector for each tensor argument by path.
    """

    name: str
    function: Callable[..., Any]
    ground_truth: Callable[..., Any]
    callback: FailureCallback | None
    tolerance: Tolerance
    detector: ExecutionOutlierDetector
    detectors: dict[str, ExecutionOutlierDetector] = field(default_factory=dict)
    statistics: OperationStatistics = field(default_factory=OperationStatistics)
    steps: itertools.count[int] = field(default_factory=itertools.count)
    stored: int = 0
    reported_errors: int = 0
    shown: str = ""
    """The name in reports, which has a number where several operations have the same name."""

    def reset(self) -> None:
        """Forget the calls of an earlier run."""
        self.detector.reset()
        self.detectors.clear()
        self.statistics = OperationStatistics()
        self.steps = itertools.count()
        self.stored = self.reported_errors = 0

    def is_unusual(self, arguments: Any) -> bool:
        """Return whether a tensor argument is unusual; every one is added to the statistics."""
        unusual = False
        for path, tensor in tensors(arguments):
            detector = self.detectors.get(path)
            if detector is None:
                # The first argument has the caller's own detector, the others have copies of it.
                detector = self.detector if not self.detectors else copy.deepcopy(self.detector)
                if self.detectors:
                    detector.reset()
                self.detectors[path] = detector
            unusual = bool(detector.is_outlier(tensor)) or unusual
        return unusual

    def named_arguments(self, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
        """Return the arguments by parameter name, by position where the signature is not known."""
        try:
            return dict(inspect.signature(self.function).bind(*args, **kwargs).arguments)
        except (TypeError, ValueError):
            return {**{f"arg{index}": value for index, value in enumerate(args)}, **kwargs}


@dataclass(slots=True)
class PendingCheck:
    """One call: snapshots of its arguments and result. ``sampled``: it is checked whatever its inputs are.

    ``size`` is that of the snapshots in bytes. ``ready`` is an event of the device after which they can be read,
    None if they can be read at once.
    """

    operation: Operation
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    sampled: bool
    step: int
    size: int
    result: Any = None
    ready: Any = None
    autocast: tuple[tuple[str, Any, str], ...] = ()
    """PyTorch's autocast at the call: device, dtype and the name of its format."""


_OPERATIONS: weakref.WeakValueDictionary[tuple[str, int], Operation] = weakref.WeakValueDictionary()


def register(operation: Operation) -> None:
    """Add an operation. Functions of the same name are separate operations."""
    same = sum(name == operation.name for name, _ in _OPERATIONS)
    operation.shown = operation.name if not same else f"{operation.name}#{same + 1}"
    _OPERATIONS[operation.name, id(operation)] = operation


def registered() -> list[Operation]:
    """Return the operations that exist."""
    return list(_OPERATIONS.values())

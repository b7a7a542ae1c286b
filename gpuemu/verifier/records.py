"""Records of the verifier: a failure as its callback gets it, statistics, and the report of a run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FailureCallbackArgs:
    """A call whose result differs from the ground truth.

    ``original_result`` and ``ground_truth_result`` are detached from the autograd graph. ``inputs`` are the positional
    and ``kwargs`` the keyword arguments as they were before the call. ``step`` is the number of the operation's call
    since the start, from 0. ``max_abs`` and ``max_rel`` are the largest errors of the worst output; ``index``,
    ``shape`` and ``dtype`` are the element and the output they belong to, which ``output`` names by its path in the
    result. ``case_id`` is the id for ``gpuemu reproduce``, None if the case was not stored.
    """

    original_result: Any
    ground_truth_result: Any
    inputs: tuple[Any, ...] = ()
    kwargs: Mapping[str, Any] = field(default_factory=dict)
    operation: str = ""
    step: int = 0
    max_abs: float | None = None
    max_rel: float | None = None
    index: tuple[int, ...] = ()
    shape: tuple[int, ...] = ()
    dtype: str = ""
    output: str = ""
    message: str = ""
    case_id: str | None = None


@dataclass(frozen=True, slots=True)
class FailureRecord:
    """A failure without its tensors. Fields as in :class:`FailureCallbackArgs`."""

    operation: str
    step: int
    message: str
    case_id: str | None
    max_abs: float | None = None
    max_rel: float | None = None


@dataclass(slots=True)
class OperationStatistics:
    """Counts of one operation since the start.

    ``calls`` were made while the checker ran; ``checked`` were compared with the ground truth, ``outliers`` of them
    because of unusual inputs alone; ``failed`` differ from it. ``dropped`` calls were to be judged, but the queue had
    no capacity. ``not_executed`` are checks whose ground truth or comparison raised an exception.
    """

    calls: int = 0
    checked: int = 0
    outliers: int = 0
    failed: int = 0
    dropped: int = 0
    not_executed: int = 0


@dataclass(frozen=True, slots=True)
class Report:
    """Counts of all operations together and of each, and the latest failures; fields as in the statistics.

    ``pending`` calls, of ``pending_bytes`` bytes, have not been judged.
    """

    calls: int = 0
    checked: int = 0
    outliers: int = 0
    failed: int = 0
    dropped: int = 0
    not_executed: int = 0
    pending: int = 0
    pending_bytes: int = 0
    operations: Mapping[str, OperationStatistics] = field(default_factory=dict)
    failures: tuple[FailureRecord, ...] = ()

    @property
    def clean(self) -> bool:
        """Whether calls were compared, all of them are equal to the ground truth, and every check could be executed."""
        return self.checked > 0 and not self.failed and not self.not_executed

    def __str__(self) -> str:
        parts = [f"{self.calls} calls", f"{self.checked} checked ({self.outliers} for unusual inputs)"]
        parts.append(f"{self.failed} wrong")
        for count, text in ((self.not_executed, "not executed"), (self.dropped, "dropped"), (self.pending, "pending")):
            if count:
                parts.append(f"{count} {text}")
        if not self.checked:
            parts.append("nothing was verified")
        return ", ".join(parts)

"""Results of validations, as the original's client returns them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Self


class ValidationError(AssertionError):
    """An operation failed its validation. ``result`` has the details."""

    def __init__(self, result: ValidationResult) -> None:
        messages = [failure["message"] for failure in result.failures[:3]]
        more = f" (and {len(result.failures) - 3} more)" if len(result.failures) > 3 else ""
        super().__init__(f"'{result.op_name}' failed: {'; '.join(messages)}{more}")
        self.result = result


@dataclass(frozen=True, slots=True)
class ValidationResult:
    """Result of one validation.

    ``seed`` is the id of the case. ``failures`` are mappings with ``kind``, ``message``, ``index``, ``expected`` and
    ``actual``; kinds are ``ToleranceExceeded``, ``NaNDetected``, ``InfDetected``, ``ShapeMismatch``, ``DTypeMismatch``,
    ``InvariantViolation``, ``ReferenceError``, ``ExecutionError`` and ``NotExecuted``. ``repro_info`` says how to
    replay the case.
    """

    passed: bool
    seed: int
    op_name: str
    max_diff: float = 0.0
    max_rel_diff: float = 0.0
    failures: tuple[Mapping[str, Any], ...] = ()
    error_stats: Mapping[str, Any] = field(default_factory=dict)
    repro_info: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.passed


@dataclass(frozen=True, slots=True)
class ReproduceResult(ValidationResult):
    """Result of a stored case that ran again, with its ``inputs`` by name."""

    inputs: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, result: ValidationResult, inputs: Mapping[str, Any]) -> Self:
        """Return a validation of these inputs."""
        return cls(**{one.name: getattr(result, one.name) for one in fields(ValidationResult)}, inputs=inputs)

    @property
    def result(self) -> ValidationResult:
        """The validation: this object."""
        return self


@dataclass(frozen=True, slots=True)
class FuzzResults:
    """Results of many cases of one operation; ``failures`` has those that failed."""

    seed: int
    total: int
    passed: int
    failed: int
    failures: tuple[ValidationResult, ...] = ()

    def __iter__(self) -> Iterator[ValidationResult]:
        return iter(self.failures)


@dataclass(frozen=True, slots=True)
class MinimizeResult:
    """The smallest case that still fails; ``result`` is its validation."""

    original_seed: int
    minimized_seed: int
    minimized_shape: tuple[int, ...]
    result: ValidationResult


@dataclass(frozen=True, slots=True)
class BaselineComparison:
    """Measurements compared with a baseline: names of kernels and ops by verdict.

    ``others`` have changed without being better or worse, or are in one of the measurements only; ``not_measured`` did
    not run. ``upgrades`` are libraries whose versions differ: ``flash-attn 2.3.0 -> 2.4.0``. ``text`` is what
    ``gpuemu diff`` prints.
    """

    tag: str
    regressions: tuple[str, ...] = ()
    improvements: tuple[str, ...] = ()
    unchanged: tuple[str, ...] = ()
    others: tuple[str, ...] = ()
    not_measured: tuple[str, ...] = ()
    upgrades: tuple[str, ...] = ()
    text: str = ""

    @property
    def passed(self) -> bool:
        """Whether everything was measured and nothing has regressed."""
        return not self.regressions and not self.not_measured

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class ArtifactResult:
    """Artifact reports of a PTX module.

    ``results`` are ``PASS``, ``FAIL``, ``INCOMPLETE``, ``NO CHECKS CONFIGURED`` or ``NOT COMPILED``, one for each
    kernel; ``passed`` if all are ``PASS``. ``lines`` is what ``gpuemu lint`` prints, ``resources`` is ptxas' report by
    entry.
    """

    passed: bool
    results: tuple[str, ...] = ()
    lines: tuple[str, ...] = ()
    resources: Mapping[str, Any] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return self.passed

    def __str__(self) -> str:
        return "\n".join(self.lines)

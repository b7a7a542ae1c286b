"""What the cases of one plan add up to: errors, how near to what was allowed, and how much could be judged."""

from __future__ import annotations

from dataclasses import dataclass, field

from gpuemu_lsp.engine.oracle import ComparisonResult


@dataclass(slots=True)
class ErrorStatistics:
    """The numbers of one dtype so far.

    ``worst`` is the largest error of any passed case as a fraction of what was allowed, ``max_diff`` the largest
    absolute error of any, ``errors`` one relative figure per drawn case. ``needed`` has, by output dtype, the tolerance
    that each drawn case would have taken. ``compared`` and ``decided`` count elements: those looked at, and those where
    rounding does not explain every value.
    """

    worst: float | None = None
    max_diff: float = 0.0
    errors: list[float] = field(default_factory=list)
    needed: dict[str, tuple[float, ...]] = field(default_factory=dict)
    compared: int = 0
    decided: int = 0

    def judged(self, verdict: ComparisonResult) -> None:
        """Count one judged case, wherever it came from."""
        self.compared += verdict.elements
        self.decided += verdict.decided
        if not any(mismatch.severity is None for mismatch in verdict.mismatches):
            self.worst = max(self.worst or 0.0, verdict.worst)

    def drawn(self, verdict: ComparisonResult) -> None:
        """Count the errors of a drawn case. Of stored ones only those that are drawn too: figures must compare."""
        self.max_diff = max(self.max_diff, verdict.max_diff)
        self.errors.append(verdict.relative)
        for dtype, tolerance in verdict.needed.items():
            self.needed[dtype] = (*self.needed.get(dtype, ()), tolerance)

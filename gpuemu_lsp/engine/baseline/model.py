"""Records of a comparison. Does not import NumPy, for front ends."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.ptx.diff import Hunk

Value: TypeAlias = "int | float | str"

REGRESSION, IMPROVEMENT, CHANGE, SAME = "regression", "improvement", "change", "same"


@dataclass(frozen=True, slots=True)
class Delta:
    """One figure before and after. ``verdict`` is ``regression``, ``improvement``, ``change`` (neither) or ``same``."""

    name: str
    before: Value
    after: Value
    verdict: str


@dataclass(frozen=True, slots=True)
class KernelChange:
    """One kernel instance before and after.

    ``presence`` is ``both``, ``appeared`` (not in the baseline) or ``vanished`` (no longer measured). ``numbers`` and
    ``resources`` have every figure that both records have, ``code`` the differences in the PTX. ``files`` are the
    kernel's current source and headers, the source first.
    """

    kernel: str
    dtype: str
    arch: str
    presence: str = "both"
    numbers: tuple[Delta, ...] = ()
    resources: tuple[Delta, ...] = ()
    code: tuple[Hunk, ...] = ()
    notes: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    upgrade: str = ""
    """Versions of the library of an op, where they differ: ``flash-attn 2.3.0 -> 2.4.0``."""

    @property
    def deltas(self) -> tuple[Delta, ...]:
        """Every figure, numbers first."""
        return self.numbers + self.resources

    def having(self, verdict: str) -> tuple[Delta, ...]:
        """Return the figures with a verdict."""
        return tuple(delta for delta in self.deltas if delta.verdict == verdict)

    @property
    def verdict(self) -> str:
        """The most severe verdict of its figures."""
        if self.presence != "both":
            return self.presence
        if self.having(REGRESSION):
            return REGRESSION
        if self.having(IMPROVEMENT):
            return IMPROVEMENT
        return CHANGE if self.code or self.having(CHANGE) else SAME


@dataclass(frozen=True, slots=True)
class Comparison:
    """The comparison of all kernels of a baseline and of the new measurements."""

    tag: str
    changes: tuple[KernelChange, ...]

    def having(self, verdict: str) -> tuple[KernelChange, ...]:
        """Return the kernels with a verdict."""
        return tuple(change for change in self.changes if change.verdict == verdict)

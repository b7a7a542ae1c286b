"""What running a stored case again gives. Light: a face imports this without NumPy."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.findings import Finding, Severity


@dataclass(frozen=True, slots=True)
class InputPreview:
    """An input of a case, as much of it as a person can read. ``nonzero`` counts elements that are not zero."""

    name: str
    dtype: str
    shape: tuple[int, ...]
    nonzero: int
    text: str


@dataclass(frozen=True, slots=True)
class Replay:
    """A stored case, run again.

    ``verdict`` is ``still fails`` (the same rule), ``fixed`` (no error), ``changed`` (another error) or ``not
    executed``, and then ``findings`` say why. ``rule`` and ``message`` are what was stored. ``digest`` identifies the
    bits that went in: sizes, launch and every argument.
    """

    kernel: str
    dtype: str
    case: str
    verdict: str
    rule: str
    message: str
    dims: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    inputs: tuple[InputPreview, ...] = ()
    digest: str = ""

    @property
    def error(self) -> Finding | None:
        """How it fails now: as it was stored if it still does, else the first error."""
        errors = [finding for finding in self.findings if finding.severity is Severity.ERROR]
        return next((finding for finding in errors if finding.rule == self.rule), errors[0] if errors else None)


@dataclass(frozen=True, slots=True)
class Smaller:
    """What the minimiser made of a stored case.

    ``case`` is the id of the new, stored case, None when nothing smaller fails; ``replay`` is then the case as it was.
    ``complete`` False: the budget ran out first; the case fails nevertheless.
    """

    original: str
    original_dims: Mapping[str, int]
    case: str | None
    replay: Replay
    runs: int = 0
    seconds: float = 0.0
    complete: bool = True

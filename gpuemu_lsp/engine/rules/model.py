"""Records of a rule and its example."""

from __future__ import annotations

from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Severity


@dataclass(frozen=True, slots=True)
class Example:
    """Code that has the finding and the corrected code. ``language`` is the name of a Markdown code block."""

    bad: str
    good: str
    language: str = "cuda"


@dataclass(frozen=True, slots=True)
class Rule:
    """One kind of finding.

    ``summary`` is a phrase; ``doc`` is a paragraph with the meaning, the consequence and the correction. Only a rule
    that no input can violate deliberately has no ``example``.
    """

    name: str
    severity: Severity
    summary: str
    doc: str
    example: Example | None = None

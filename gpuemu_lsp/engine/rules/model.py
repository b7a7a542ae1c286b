"""Records of a rule and its example, and the rule's place in the documentation."""

from __future__ import annotations

import os
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Severity

DOCS_VARIABLE = "GPUEMU_DOCS_URL"
"""Environment variable with the address of the documentation's site, where somebody serves it."""


def documentation_site() -> str | None:
    """Return the address of the documentation's site, None where ``GPUEMU_DOCS_URL`` names none."""
    return os.environ.get(DOCS_VARIABLE, "").rstrip("/") or None


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

    @property
    def anchor(self) -> str:
        """The fragment of the rule's heading in ``docs/rules.md``, the same on the site and where Markdown is shown."""
        return self.name.replace("/", "")

    @property
    def documentation(self) -> str | None:
        """The address of the rule's documentation on the site, or None where ``GPUEMU_DOCS_URL`` names none."""
        site = documentation_site()
        return f"{site}/rules.html#{self.anchor}" if site is not None else None

"""The findings that a file of the corpus announces in comments, with those it may show.

``expect`` and ``expect-somewhere`` are the product's own (:mod:`gpuemu_lsp.engine.report.expected`). In addition:

``// pending: rule``   a finding that needs a checker which does not exist yet: allowed, not required
``// ... clean``       at the end of the first line: no error and no warning at all
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.report.expected import ExpectedFinding, expected_findings

_PENDING = re.compile(r"//\s*pending:\s*([a-z/ |-]+)")


@dataclass(frozen=True)
class Expectations:
    """The announcements of one file."""

    required: tuple[ExpectedFinding, ...]
    pending: tuple[ExpectedFinding, ...]
    clean: bool

    def found(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings that show the planted bug, on its line."""
        return tuple(finding for finding in findings if any(item.matches(finding) for item in self.required))


def read_expectations(path: Path) -> Expectations:
    text = path.read_text()
    pending = []
    for number, line in enumerate(text.split("\n")):
        if match := _PENDING.search(line):
            rules = frozenset(rule.strip() for rule in match.group(1).split("|"))
            pending.append(ExpectedFinding(rules, number))
    clean = text.split("\n", 1)[0].rstrip().endswith("clean")
    return Expectations(expected_findings(text), tuple(pending), clean)

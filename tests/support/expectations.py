"""What a corpus file says must be found in it: comments in the file itself, in the manner of clang's expected-error.

``// expect: rule | rule``              one of these rules, on this line
``// ... expect-somewhere: rule | rule``  one of these rules, on any line of the file (in the header)
``// pending: rule``                    waits for a checker we do not have yet: may be found, need not be
``// ... clean``                        ends the first line: no error and no warning at all

A file has one bug. Several lines that expect something are several places where that bug may come to light.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding

_LINE = re.compile(r"//\s*(expect|pending):\s*([a-z/ |-]+)")
_ANYWHERE = re.compile(r"expect-somewhere:\s*([a-z/ |-]+)")


@dataclass(frozen=True)
class Expectation:
    """``line`` is 0-based, None for anywhere; ``rules`` are alternatives."""

    rules: frozenset[str]
    line: int | None

    def met_by(self, finding: Finding) -> bool:
        return finding.rule in self.rules and self.line in (None, finding.place.range.start.line)


@dataclass(frozen=True)
class Expectations:
    """What one file claims about itself."""

    required: tuple[Expectation, ...]
    pending: tuple[Expectation, ...]
    clean: bool

    def found(self, findings: Iterable[Finding]) -> tuple[Finding, ...]:
        """Return the findings that show the planted bug, on its line."""
        return tuple(finding for finding in findings if any(item.met_by(finding) for item in self.required))


def read_expectations(path: Path) -> Expectations:
    required, pending = [], []
    lines = path.read_text().split("\n")
    for number, text in enumerate(lines):
        if match := _LINE.search(text):
            into = required if match.group(1) == "expect" else pending
            into.append(Expectation(_rules(match.group(2)), number))
        if match := _ANYWHERE.search(text):
            required.append(Expectation(_rules(match.group(1)), None))
    clean = lines[0].rstrip().endswith("clean")
    return Expectations(tuple(required), tuple(pending), clean)


def _rules(text: str) -> frozenset[str]:
    return frozenset(rule.strip() for rule in text.split("|") if rule.strip())

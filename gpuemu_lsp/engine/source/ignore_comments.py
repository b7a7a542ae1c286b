"""``// gpuemu: ignore[rule]``: what the author of a kernel has looked at and wants no more of.

A comment at the end of a line is about that line; one that stands alone is about the next line of code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.findings import Finding, Severity

IGNORABLE = (
    *("numeric/", "artifact/", "perf/", "compile/warning", "sync/missing-warp-mask"),
    *("memory/uninitialized-read", "memory/shared-race", "memory/global-race", "memory/index-overflow"),
)
"""What did not compile or run to its end, or is configured wrongly, cannot be ignored: the rest would be unknown."""

MARK = re.compile(r"//.*?\bgpuemu:\s*ignore\[(?P<rules>[^\]\n]*)\]")
_COMMENT = re.compile(r"^\s*//")


def ignored_lines(text: str) -> Mapping[int, frozenset[str]]:
    """Return the rules ignored on each 0-based line of a text."""
    if "gpuemu:" not in text:
        return {}
    found: dict[int, frozenset[str]] = {}
    lines = text.split("\n")
    for number, line in enumerate(lines):
        mark = MARK.search(line)
        if mark is None:
            continue
        rules = frozenset(part.strip() for part in mark["rules"].split(",") if part.strip())
        about = number
        while about < len(lines) - 1 and (_COMMENT.match(lines[about]) or not lines[about].strip()):
            about += 1
        found[about] = found.get(about, frozenset()) | rules
    return found


def ignorable(rule: str) -> bool:
    """Say whether a comment can silence a rule."""
    return rule.startswith(IGNORABLE)


@dataclass(slots=True)
class IgnoreComments:
    """The comments of a kernel's files; ``text_of`` gives a file's text, None for a file that is none of the user's."""

    text_of: Callable[[str], str | None]
    _lines: dict[str, Mapping[int, frozenset[str]]] = field(default_factory=dict)

    def apply(self, finding: Finding) -> Finding:
        """Return the finding; as a hint that says so where a comment on its line silences its rule."""
        if not ignorable(finding.rule) or finding.rule not in self._at(finding):
            return finding
        message = f"Ignored here by a comment: {finding.message}"
        return replace(finding, severity=Severity.HINT, message=message, data={**finding.data, "ignored": True})

    def _at(self, finding: Finding) -> frozenset[str]:
        path = finding.place.path
        if path not in self._lines:
            self._lines[path] = ignored_lines(self.text_of(path) or "")
        return self._lines[path].get(finding.place.range.start.line, frozenset())

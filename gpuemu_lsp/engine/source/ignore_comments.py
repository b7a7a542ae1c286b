"""Suppression comments: ``// gpuemu: ignore[rule]``, in Python ``# gpuemu: ignore[rule]``.

A trailing comment applies to its own line, a comment on a line of its own to the next line of code.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.findings import Finding, Range, Severity

IGNORABLE = (
    *("numeric/", "artifact/", "perf/", "compile/warning", "sync/missing-warp-mask"),
    *("memory/uninitialized-read", "memory/shared-race", "memory/global-race", "memory/index-overflow"),
)
"""Prefixes of the rules that can be suppressed.

Failed compilations, incomplete runs and configuration errors cannot: with them hidden, a kernel that was not checked
would look clean.
"""

MARK = re.compile(r"//.*?\bgpuemu:\s*ignore\[(?P<rules>[^\]\n]*)\]")
HASH_MARK = re.compile(r"#.*?\bgpuemu:\s*ignore\[(?P<rules>[^\]\n]*)\]")
_PYTHON_MARK = re.compile(r"(?://|#).*?\bgpuemu:\s*ignore\[(?P<rules>[^\]\n]*)\]")
"""In a ``.py`` file, whose strings may be CUDA code."""
_COMMENT = re.compile(r"^\s*//")
_PYTHON_COMMENT = re.compile(r"^\s*(?://|#)")


@dataclass(frozen=True, slots=True)
class Suppression:
    """A rule named by a comment: ``range`` is its name there, ``line`` the 0-based line it applies to."""

    rule: str
    range: Range
    line: int


def suppressions(text: str, python: bool = False) -> Iterator[Suppression]:
    """Yield the rules that the comments of a text suppress; ``python`` for that of a ``.py`` file."""
    pattern, alone = (_PYTHON_MARK, _PYTHON_COMMENT) if python else (MARK, _COMMENT)
    if "gpuemu:" not in text:
        return
    lines = text.split("\n")
    for number, line in enumerate(lines):
        mark = pattern.search(line)
        if mark is None:
            continue
        target = number
        while target < len(lines) - 1 and (alone.match(lines[target]) or not lines[target].strip()):
            target += 1
        for name in re.finditer(r"[^,\s]+", mark["rules"]):
            start = mark.start("rules") + name.start()
            column = len(line[:start].encode("utf-8", "surrogatepass"))
            yield Suppression(name[0], Range.of(number, column, number, column + len(name[0].encode())), target)


def ignored_lines(text: str, python: bool = False) -> Mapping[int, frozenset[str]]:
    """Return the rules that are suppressed on each 0-based line of a text."""
    found: dict[int, frozenset[str]] = {}
    for one in suppressions(text, python):
        found[one.line] = found.get(one.line, frozenset()) | {one.rule}
    return found


def ignorable(rule: str) -> bool:
    """Return whether a comment can suppress a rule."""
    return rule.startswith(IGNORABLE)


@dataclass(slots=True)
class IgnoreComments:
    """Suppression comments of a kernel's files, read on demand.

    ``text_of`` returns the text of a file by path, None for a file that does not belong to the user.
    """

    text_of: Callable[[str], str | None]
    _lines: dict[str, Mapping[int, frozenset[str]]] = field(default_factory=dict)

    def apply(self, finding: Finding) -> Finding:
        """Return the finding, downgraded to a hint where a comment on its line suppresses its rule."""
        if not self.covers(finding):
            return finding
        message = f"Suppressed by a 'gpuemu: ignore' comment: {finding.message}"
        return replace(finding, severity=Severity.HINT, message=message, data={**finding.data, "ignored": True})

    def covers(self, finding: Finding) -> bool:
        """Return whether a comment on its line suppresses the rule of a finding."""
        return ignorable(finding.rule) and finding.rule in self._at(finding)

    def _at(self, finding: Finding) -> frozenset[str]:
        path = finding.place.path
        if path not in self._lines:
            self._lines[path] = ignored_lines(self.text_of(path) or "", path.endswith(".py"))
        return self._lines[path].get(finding.place.range.start.line, frozenset())

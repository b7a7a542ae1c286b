"""Fixes that need no choice by the author: ``source.fixAll.gpuemu``."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable

from gpuemu_lsp.engine.findings import Finding, Range
from gpuemu_lsp.engine.project import place_of
from gpuemu_lsp.engine.project.edits import TextChange
from gpuemu_lsp.engine.project.schema import known_keys
from gpuemu_lsp.server.code_actions.code_lines import EditableLine, code_line

UNKNOWN_KEY = "config/unknown-key"
UNUSED_SUPPRESSION = "config/unused-suppression"
_LONG = 8
"""Length from which a name with two typing errors is still unambiguous."""
_DIRECTIVE = re.compile(r"\bgpuemu:\s*ignore\[[^\]\n]*\]")


def certain_changes(text: str, findings: Iterable[Finding]) -> list[TextChange]:
    """Return the changes of a text that fix findings of it in the only way there is; they do not overlap."""
    changes = []
    unused: dict[int, tuple[Finding, set[str]]] = {}
    for finding in findings:
        span = finding.place.range
        if finding.rule == UNKNOWN_KEY:
            suggestion = finding.data.get("suggestion")
            change = spelling(text, span, suggestion) if isinstance(suggestion, str) else None
            changes += [change] if change is not None else []
        elif finding.rule == UNUSED_SUPPRESSION:
            unused.setdefault(span.start.line, (finding, set()))[1].add(text_at(text, span))
    removals = (
        without_suppressions(code_line(finding.place.path, text, finding.place.range.start), rules)
        for finding, rules in unused.values()
    )
    return [*changes, *(change for change in removals if change is not None)]


def spelling(text: str, span: Range, suggested: str) -> TextChange | None:
    """Return the change of a misspelt key to the suggested one, if no other key is as close."""
    written = text_at(text, span)
    name = written.strip("'\"")
    location = place_of(text, span.start.line, span.start.column)
    if location is None or not name:
        return None
    most = 2 if len(name) >= _LONG else 1
    close = [key.name for key in known_keys(location.path[:-1]) if distance(name, key.name) <= most]
    quote = written[: len(written) - len(written.lstrip("'\""))]
    return TextChange(span, f"{quote}{suggested}{quote}") if close == [suggested] else None


def without_suppressions(line: EditableLine | None, rules: Collection[str]) -> TextChange | None:
    """Return the change that removes rules from the suppression comment of a line, or the comment if none is left.

    Other text of the comment stays. A line that would be empty is removed.
    """
    mark = line.suppression if line is not None else None
    if mark is None or line is None:
        return None
    content = line.content
    kept = [rule for rule in re.findall(r"[^,\s]+", mark["rules"]) if rule not in rules]
    if kept:
        return line.changed(mark.start("rules"), mark.end("rules"), ", ".join(kept))
    comment, sign = content[mark.start() :], line.comment
    rest = re.sub(rf"^{sign}\s+", f"{sign} ", _DIRECTIVE.sub("", comment, count=1)).rstrip().removesuffix(sign)
    before = content[: mark.start()]
    if rest:
        return line.changed(mark.start(), len(content), rest)
    if before.strip() or not line.whole:
        return line.changed(len(before.rstrip()), len(content), "")
    number = line.number
    return TextChange(Range.of(number, 0, number + 1, 0), "") if number + 1 < len(line.lines) else None


def distance(name: str, other: str) -> int:
    """Return the optimal string alignment distance: insertions, deletions, replacements, swaps of neighbours."""
    above: list[int] = []
    previous = list(range(len(other) + 1))
    for row, letter in enumerate(name, 1):
        current = [row]
        for column, compared in enumerate(other, 1):
            cost = letter != compared
            least = min(previous[column] + 1, current[-1] + 1, previous[column - 1] + cost)
            if row > 1 and column > 1 and (name[row - 2], letter) == (compared, other[column - 2]):
                least = min(least, above[column - 2] + 1)
            current.append(least)
        above, previous = previous, current
    return previous[-1]


def text_at(text: str, span: Range) -> str:
    """Return the text of a range within one line; empty for others."""
    lines = text.split("\n")
    if span.start.line != span.end.line or span.start.line >= len(lines):
        return ""
    content = lines[span.start.line].encode("utf-8", "surrogatepass")
    return content[span.start.column : span.end.column].decode("utf-8", "replace")

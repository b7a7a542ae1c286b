"""``source.fixAll.gpuemu``: what has one possible fix is fixed, everything else is left alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuemu_lsp.engine.findings import Finding, Place, Range, Severity
from gpuemu_lsp.server.code_actions.fix_all import certain_changes, distance

PATH = "/project/file"


def _found(rule: str, text: str, word: str, suggestion: str = "") -> Finding:
    line = next(number for number, content in enumerate(text.split("\n")) if word in content)
    column = text.split("\n")[line].index(word)
    place = Place(PATH, Range.of(line, column, line, column + len(word)))
    return Finding(rule, "", place, Severity.ERROR, data={"suggestion": suggestion} if suggestion else {})


def _fixed(text: str, *findings: Finding) -> str:
    lines = text.split("\n")
    for change in sorted(certain_changes(text, findings), key=lambda item: item.range.start, reverse=True):
        start, end = change.range.start, change.range.end
        head, tail = lines[start.line][: start.column], lines[end.line][end.column :]
        lines[start.line : end.line + 1] = (head + change.text + tail).split("\n")
    return "\n".join(lines)


def _typo(written: str, suggested: str) -> tuple[str, Finding]:
    text = f'[[kernels]]\nname = "scale"\n{written} = "scale.cu"\n'
    return text, _found("config/unknown-key", text, written, suggested)


@pytest.mark.parametrize("written", ["sourc", "suorce", "soource", "Source", '"sourse"'])
def test_a_misspelt_key_with_one_close_key_is_corrected(written):
    text, finding = _typo(written, "source")
    corrected = written.replace(written.strip('"'), "source")
    assert _fixed(text, finding) == text.replace(written, corrected)


@pytest.mark.parametrize("written", ["src", "sauces", "surface"])
def test_a_distant_key_is_left_to_the_author(written):
    text, finding = _typo(written, "source")
    assert _fixed(text, finding) == text


@pytest.mark.parametrize(
    ("line", "unused", "fixed"),
    [
        ("y[i] = 1;  // gpuemu: ignore[numeric/nan]", ["numeric/nan"], "y[i] = 1;"),
        ("y[i] = 1;  // gpuemu: ignore[numeric/nan, perf/x]", ["perf/x"], "y[i] = 1;  // gpuemu: ignore[numeric/nan]"),
        ("y[i] = 1;  // gpuemu: ignore[numeric/nan, perf/x]", ["numeric/nan", "perf/x"], "y[i] = 1;"),
        ("y[i] = 1;  // the sum; gpuemu: ignore[numeric/nan]", ["numeric/nan"], "y[i] = 1;  // the sum;"),
        ("y[i] = 1;  // gpuemu: ignore[numeric/nan] (the sum)", ["numeric/nan"], "y[i] = 1;  // (the sum)"),
        ('s = "ü";  // gpuemu: ignore[numeric/nan]', ["numeric/nan"], 's = "ü";'),
    ],
)
def test_an_unused_suppression_is_removed_and_nothing_else(line, unused, fixed):
    text = f"first\n{line}\nlast\n"
    findings = [_found("config/unused-suppression", text, rule) for rule in unused]
    byte_ranges = []
    for finding in findings:
        start, end = finding.place.range.start, finding.place.range.end
        start_byte, end_byte = (len(line[: at.column].encode()) for at in (start, end))
        place = Place(PATH, Range.of(1, start_byte, 1, end_byte))
        byte_ranges.append(replace(finding, place=place))
    changes = certain_changes(text, byte_ranges)
    (change,) = changes
    raw = line.encode()
    assert change.range.start.line == change.range.end.line == 1
    assert (raw[: change.range.start.column] + change.text.encode() + raw[change.range.end.column :]).decode() == fixed


def test_a_line_with_only_the_suppression_is_removed():
    text = "first\n  // gpuemu: ignore[numeric/nan]\nlast\n"
    assert _fixed(text, _found("config/unused-suppression", text, "numeric/nan")) == "first\nlast\n"


def test_other_findings_are_not_fixed():
    text = "y[i] = 1;  // gpuemu: ignore[numeric/nan]\n"
    assert (
        _fixed(text, _found("numeric/nan", text, "y[i]"), _found("config/unknown-suppression", text, "ignore")) == text
    )


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [("", "", 0), ("ab", "", 2), ("ab", "ba", 1), ("kitten", "sitting", 3), ("source", "sourc", 1), ("abc", "ca", 3)],
)
def test_distance_counts_insertions_deletions_replacements_and_swaps(one, other, expected):
    assert distance(one, other) == distance(other, one) == expected

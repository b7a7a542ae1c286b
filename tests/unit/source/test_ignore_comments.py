"""Suppression comments: their lines, the rules they apply to, and the resulting hints."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.findings import Place, Range, Severity
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.source.ignore_comments import IgnoreComments, ignorable, ignored_lines, suppressions

TEXT = """\
int a; // gpuemu: ignore[memory/shared-race]
// gpuemu: ignore[numeric/nan, numeric/inf]

// why: it is meant
int b;
int c; // no mark: ignore[numeric/nan]
"""


def test_a_comment_applies_to_its_line_or_the_next_line_of_code():
    assert ignored_lines(TEXT) == {
        0: frozenset({"memory/shared-race"}),
        4: frozenset({"numeric/nan", "numeric/inf"}),
    }


@pytest.mark.parametrize(
    "rule",
    [
        "engine/not-executed",
        "memory/out-of-bounds",
        "sync/hang",
        "compile/error",
        "config/bad-value",
        "reference/error",
    ],
)
def test_errors_and_incomplete_checks_cannot_be_suppressed(rule: str):
    assert not ignorable(rule)
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    finding = make(rule, "m", place)
    assert IgnoreComments(lambda _: f"x // gpuemu: ignore[{rule}]").apply(finding) is finding


def test_a_suppressed_finding_becomes_a_hint():
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    suppressed = IgnoreComments(lambda _: TEXT).apply(make("memory/shared-race", "m", place))
    assert suppressed.severity is Severity.HINT and suppressed.data["ignored"] is True
    other = make("memory/global-race", "m", place)
    assert IgnoreComments(lambda _: TEXT).apply(other) is other


def test_a_suppression_has_the_range_of_its_rule_and_the_line_it_applies_to():
    text = "// é gpuemu: ignore[numeric/nan, memory/shared-race]\n\nx = 1;\n"
    found = list(suppressions(text))
    assert [(one.rule, one.line) for one in found] == [("numeric/nan", 2), ("memory/shared-race", 2)]
    line = text.split("\n")[0].encode()
    assert [line[one.range.start.column : one.range.end.column].decode() for one in found] == [
        "numeric/nan",
        "memory/shared-race",
    ]

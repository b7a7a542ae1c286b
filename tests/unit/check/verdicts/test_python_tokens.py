"""Tokens of a Python file: equal where comments and blank lines differ, with positions that move with the code."""

from __future__ import annotations

import pytest

from gpuemu_lsp.engine.check.verdicts.python_tokens import TokenizedText
from gpuemu_lsp.engine.findings import Position

TEXT = '''\
"""Naïve
module."""
def f(x, y):
    z = g(x,
          "ä", y)  # a comment
    return z
'''


def tokens(text: str) -> TokenizedText:
    found = TokenizedText.of(text)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "edited",
    [
        "# first\n\n" + TEXT,
        TEXT + "\n\n# last",
        TEXT.replace("  # a comment", ""),
        TEXT.replace("    return", "\n        # indented otherwise\n    return"),
        TEXT.replace('          "ä"', '\n          # inside of a call\n  "ä"'),
        TEXT.replace("\n    ", "\n  "),
        TEXT.replace("g(x,", "g( x ,"),
    ],
)
def test_equal_tokens(edited: str) -> None:
    before, after = tokens(TEXT), tokens(edited)
    assert before.digest == after.digest
    for part in ("g", "y)", "return", "z\n"):
        old, new = _position(TEXT, part), _position(edited, part)
        anchor = before.anchor(old)
        assert anchor is not None and after.position(anchor) == new


@pytest.mark.parametrize(
    "edited",
    [
        TEXT.replace("ä", "b"),
        TEXT.replace("x,\n          ", "x, "),  # instructions of two lines now share one
        TEXT.replace("# a comment", "# gpuemu: ignore[numeric/mismatch]"),
        TEXT.replace("    return z", "return z"),
        TEXT.replace("module.", "module"),
    ],
)
def test_other_tokens(edited: str) -> None:
    assert tokens(TEXT).digest != tokens(edited).digest


def test_positions_outside_of_tokens_have_no_anchor() -> None:
    comment = _position(TEXT, "a comment")
    assert tokens(TEXT).anchor(comment) is None
    assert tokens(TEXT).anchor(Position(5, 1)) is None


def test_text_that_python_cannot_read() -> None:
    assert TokenizedText.of('"""') is None


def _position(text: str, part: str) -> Position:
    start = text.rindex(part)
    line = text.rfind("\n", 0, start) + 1
    return Position(text.count("\n", 0, start), len(text[line:start].encode()))

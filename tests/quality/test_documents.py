"""Pages that can be read and compared: lines of text have at most 120 columns."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COLUMNS = 120
FOLDERS = ("docs", "editors/vscode", "editors/neovim")


def long_lines(text: str) -> Iterator[int]:
    """Yield the numbers of lines that are too long, but for tables, code and images."""
    fenced = False
    for number, line in enumerate(text.splitlines(), 1):
        if line.lstrip().startswith("```"):
            fenced = not fenced
        if len(line) > COLUMNS and not fenced and not re.match(r" {4}| *\||!\[", line):
            yield number


def pages() -> list[Path]:
    below = [path for folder in FOLDERS for path in (ROOT / folder).rglob("*.md") if "node_modules" not in path.parts]
    return [*ROOT.glob("*.md"), *below]


def test_lines_of_pages_fit():
    assert len(pages()) > 40
    wrong = {str(path.relative_to(ROOT)): list(long_lines(path.read_text("utf-8"))) for path in pages()}
    assert {name: lines for name, lines in wrong.items() if lines} == {}


def test_tables_and_code_may_be_long():
    assert list(long_lines("x" * 121)) == [1]
    assert not list(long_lines(f"| {'x' * 121}\n    {'x' * 121}\n```\n{'x' * 121}\n```"))

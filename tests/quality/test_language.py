"""The words of ``docs/glossary.md`` that code, comments, messages and documentation do not use."""

from __future__ import annotations

import io
import re
import subprocess
import tokenize
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = "docs/glossary.md"
READ_WHOLE = (".md", ".ts", ".lua", ".el", ".yml", ".toml", ".cu", ".cuh")
EXEMPT = {GLOSSARY, "tests/quality/test_language.py", "LICENSE-APACHE", "LICENSE-MIT"}


def banned() -> list[str]:
    table = (ROOT / GLOSSARY).read_text("utf-8").split("## Words that are not used")[1]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")][1:]
    return [word.strip() for row in rows for word in row.split(",")]


def pattern() -> re.Pattern[str]:
    words = "|".join(re.escape(word) for word in sorted(banned(), key=len, reverse=True))
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE)


def words_of(name: str) -> str:
    """``MeetingPoint`` and ``meeting_point`` as ``meeting point``; names that belong to VS Code are left out."""
    name = name.replace("ViewColumn.Beside", "")
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])|_", " ", name)


def python_texts(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type in (tokenize.COMMENT, tokenize.STRING):
            for offset, line in enumerate(token.string.splitlines()):
                yield token.start[0] + offset, words_of(line)
        elif token.type == tokenize.NAME:
            yield token.start[0], words_of(token.string)


def tracked() -> list[str]:
    listed = subprocess.run(["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("not a git checkout")
    return [name for name in listed.stdout.splitlines() if name not in EXEMPT and (ROOT / name).is_file()]


def violations(name: str) -> list[str]:
    text = (ROOT / name).read_text("utf-8")
    lines = python_texts(text) if name.endswith(".py") else enumerate((words_of(x) for x in text.splitlines()), 1)
    found = pattern()
    return [f"{name}:{line}: {match.group()}" for line, part in lines for match in found.finditer(part)]


def test_the_glossary_names_words_to_avoid():
    assert len(banned()) > 30
    assert pattern().search("the lanes have Parted") and not pattern().search("departed, roommate")
    assert pattern().search(words_of("LaneMeetings")) and pattern().search(words_of("add_conductor"))


def test_no_text_uses_a_word_of_a_private_dialect():
    # Not one case per suffix, of which a sample would run.
    found = [row for name in tracked() if name.endswith((".py", *READ_WHOLE)) for row in violations(name)]
    assert not found, "\n".join(found)

"""The words of ``docs/glossary.md`` that code, comments, messages and documentation do not use."""

from __future__ import annotations

import ast
import io
import re
import subprocess
import tokenize
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
GLOSSARY = "docs/glossary.md"
READ_WHOLE = (".md", ".cpp", ".h", ".ts", ".lua", ".el", ".yml", ".toml", ".cu", ".cuh")
EXEMPT = {GLOSSARY, "tests/quality/test_language.py", "LICENSE-APACHE", "LICENSE-MIT"}


def banned() -> list[str]:
    table = (ROOT / GLOSSARY).read_text("utf-8").split("## Words that are not used")[1]
    rows = [line.split("|")[1] for line in table.splitlines() if line.startswith("| ")][1:]
    return [word.strip() for row in rows for word in row.split(",")]


def pattern() -> re.Pattern[str]:
    words = "|".join(expression(word) for word in sorted(banned(), key=len, reverse=True))
    return re.compile(rf"(?<![A-Za-z])(?:{words})(?![A-Za-z])", re.IGNORECASE)


def expression(words: str) -> str:
    """A row of the table as a regular expression: "is no NOUN" is any noun, but neither "there is no" nor "no longer"."""
    if not words.endswith(" NOUN"):
        return re.escape(words)
    there = "".join(rf"(?<!there{verb} )" for verb in ("", " may", " can", " must", " will"))
    return rf"{there}{re.escape(words.removesuffix('NOUN'))}(?!longer|other|more|less|fewer)[`'*:]*[a-z]+"


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
    banned_words = pattern()
    rows = [(line, match.group()) for line, text in lines for match in banned_words.finditer(text)]
    return [f"{name}:{line}: {words}" for line, words in rows]


def test_the_glossary_names_words_to_avoid():
    assert len(banned()) > 30
    assert pattern().search("the lanes have Parted") and not pattern().search("departed, roommate")
    assert pattern().search("that is no ``map``") and pattern().search(words_of("test_it_is_no_race"))
    assert not pattern().search("there is no map, it is no longer one; there may be no map; it has no map")
    assert pattern().search(words_of("LaneMeetings")) and pattern().search(words_of("add_conductor"))


def test_no_text_uses_a_word_of_a_private_dialect():
    # Not one case per suffix, of which a sample would run.
    found = [row for name in tracked() if name.endswith((".py", *READ_WHOLE)) for row in violations(name)]
    assert not found, "\n".join(found)


PACKAGES = ("gpuemu_lsp", "gpuemu", "cuda_kernel_verifier")

PROCESSES = {"linking", "lowering", "mapping", "rounding", "slicing", "tiering", "tracing"}
"""Endings in -ing that are the field's own nouns."""


def test_modules_are_named_after_what_they_hold():
    names = [name for name in tracked() if name.startswith(PACKAGES) and name.endswith(".py")]
    stems = {name: name.removesuffix("/__init__.py").removesuffix(".py").rpartition("/")[2] for name in names}
    verbs = {name for name, stem in stems.items() if stem.endswith("ing") and stem.split("_")[-1] not in PROCESSES}
    assert verbs == set(), "a noun says more: reader, compilation, judgement"


VAGUE = {"one", "found", "known", "mine", "made"}
VARIABLES = {
    "engine.emulator": 276,
    "engine.jobs": 19,
    "engine.oracle": 37,
    "engine.runtime": 33,
    "gpuemu": 90,
    "server": 16,
    "rest of the engine": 700,
    "rest": 3,
}
"""How many variables and parameters have such a name. The figures only go down."""


def vague_names(tree: ast.Module) -> Iterator[str]:
    """Names in :data:`VAGUE` that are assigned or parameters, but for those of a comprehension in one line."""
    comprehensions = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
    short: set[int] = set()
    for node in ast.walk(tree):
        if isinstance(node, comprehensions) and node.lineno == node.end_lineno:
            short.update(id(name) for generator in node.generators for name in ast.walk(generator.target))
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and id(node) not in short:
            yield node.id
        elif isinstance(node, ast.arg):
            yield node.arg


def package_of(name: str) -> str:
    parts = name.split("/")
    if parts[:2] == ["gpuemu_lsp", "engine"]:
        package = f"engine.{parts[2]}"
        return package if package in VARIABLES else "rest of the engine"
    package = parts[1] if parts[0] == "gpuemu_lsp" else parts[0]
    return package if package in VARIABLES else "rest"


def test_variables_are_named_after_what_they_hold():
    counts: Counter[str] = Counter()
    for name in tracked():
        if name.startswith(PACKAGES) and name.endswith(".py"):
            names = vague_names(ast.parse((ROOT / name).read_text("utf-8")))
            counts[package_of(name)] += sum(variable in VAGUE for variable in names)
    assert {package: count for package, count in counts.items() if count > VARIABLES[package]} == {}

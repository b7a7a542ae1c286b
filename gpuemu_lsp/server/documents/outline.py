"""Structure of texts, for outlines and folding: tables of gpuemu.toml, and multi-line brackets and comments."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.source.preprocessor.lexer import source_text

_HEADER = re.compile(r"^\s*(?P<brackets>\[\[?)\s*(?P<path>[^\[\]#]+?)\s*\]")
_NAME = re.compile(r"^\s*name\s*=\s*(?P<quote>[\"'])(?P<name>.*?)(?P=quote)")
_TOML_NOISE = re.compile(r"\"(?:\\.|[^\"\\\n])*\"|'[^'\n]*'|#[^\n]*")
_CLOSING = {"}": "{", "]": "["}


@dataclass(frozen=True, slots=True)
class ConfigSection:
    """A table of gpuemu.toml from its header to its last line that is not empty; lines are 0-based.

    ``name`` is that of the kernel or op for an entry of an array of tables, else empty.
    """

    path: str
    is_entry: bool
    first: int
    last: int
    name: str = ""

    @property
    def parent(self) -> str:
        """Path of the table it belongs to."""
        return self.path.rpartition(".")[0]


@dataclass(frozen=True, slots=True)
class Fold:
    """Lines that can be folded to the first of them."""

    first: int
    last: int
    comment: bool = False


def config_sections(lines: Sequence[str]) -> list[ConfigSection]:
    """Return the tables of a gpuemu.toml, whose text may be incomplete.

    ``[[kernels]]`` ends before the next table that is not below it, other tables before the next header.
    """
    headers = [(number, match) for number, line in enumerate(lines) if (match := _HEADER.match(line))]
    entries = []
    for index, (first, match) in enumerate(headers):
        path, is_entry = match["path"], match["brackets"] == "[["
        following = headers[index + 1 :]
        if is_entry:
            following = [item for item in following if not item[1]["path"].startswith(f"{path}.")]
        end = following[0][0] if following else len(lines)
        own_end = headers[index + 1][0] if index + 1 < len(headers) else len(lines)
        names = (name["name"] for line in lines[first:own_end] if (name := _NAME.match(line)))
        entries.append(
            ConfigSection(path, is_entry, first, _last(lines, first, end), next(names, "") if is_entry else "")
        )
    return entries


def config_folds(text: str) -> Iterator[Fold]:
    """Yield the tables and multi-line values of a gpuemu.toml."""
    lines = text.split("\n")
    yield from (Fold(section.first, section.last) for section in config_sections(lines) if section.last > section.first)
    yield from _brackets(_TOML_NOISE.sub(lambda match: " " * len(match[0]), text))


def source_folds(text: str) -> Iterator[Fold]:
    """Yield the multi-line blocks and comments of a C++ text.

    All of them, not only kernels: a client that is offered any ranges no longer folds by indentation.
    """
    source = source_text(text)
    yield from _brackets(source.code)
    for comment in re.finditer(r"/\*.*?\*/", source.raw, re.DOTALL):
        first = source.raw.count("\n", 0, comment.start())
        if (lines := comment[0].count("\n")) and source.clean[comment.start()] == " ":
            yield Fold(first, first + lines, comment=True)


def _brackets(text: str) -> Iterator[Fold]:
    """Yield the pairs of braces and square brackets on different lines; the line of the closing one stays visible."""
    opened: list[tuple[str, int]] = []
    line = 0
    for match in re.finditer(r"[\n{}\[\]]", text):
        character = match[0]
        if character == "\n":
            line += 1
        elif character in "{[":
            opened.append((character, line))
        elif opened and opened[-1][0] == _CLOSING[character]:
            _, first = opened.pop()
            if line - 1 > first:
                yield Fold(first, line - 1)


def _last(lines: Sequence[str], first: int, end: int) -> int:
    return next(number for number in range(end - 1, first - 1, -1) if number == first or lines[number].strip())

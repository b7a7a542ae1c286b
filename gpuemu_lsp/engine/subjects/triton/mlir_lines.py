"""Source lines of the operations in MLIR, such as Triton's TTIR and TTGIR, read from the text itself.

An operation ends with its location, or with the name of one that is defined elsewhere in the text: a place in a file,
a call (`callsite`: the callee, then the caller), or several that were fused (MLIR, "Builtin dialect", location
attributes).
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator

_ALIAS = re.compile(r"^(#loc\d*) = loc\((.*)\)\s*$", re.MULTILINE)
_PLACE = re.compile(r'"((?:[^"\\]|\\.)*)":(\d+):\d+|(#loc\d*)')
_LAST = re.compile(r".*\bloc\((.*)\)\s*$")
_ESCAPE = re.compile(rb"\\(\\|[0-9A-Fa-f]{2})")
_DEEPEST = 64


def mlir_lines(text: str, path: str) -> list[tuple[int, int, int]]:
    """Return ``(source line, first, last)`` of each run of lines from one line of ``path``; all 0-based.

    An operation that a function of another file inlined is on the line of ``path`` that calls it.
    """
    spans: list[tuple[int, int, int]] = []
    for number, places in _places(text):
        line = next((line for file, line in places if _same(file, path)), None)
        if line is None:
            continue
        if spans and spans[-1][0] == line and spans[-1][2] == number - 1:
            spans[-1] = (line, spans[-1][1], number)
        else:
            spans.append((line, number, number))
    return spans


def mlir_source_of(text: str, line: int) -> tuple[str, int] | None:
    """Return file and 0-based source line of the operation on a 0-based line of MLIR; None where there is none."""
    return next((places[0] for number, places in _places(text) if number == line and places), None)


def _places(text: str) -> Iterator[tuple[int, list[tuple[str, int]]]]:
    """Yield the number of each line of an operation and its places, the innermost of inlined calls first."""
    aliases = {match[1]: match[2] for match in _ALIAS.finditer(text)}
    found: dict[int, str] = {}
    open_lines: list[list[int]] = []
    for number, line in enumerate(text.split("\n")):
        content = line.strip()
        # The location of an operation with regions follows the last one, as do those of `scf.if` with an else branch.
        opened = open_lines.pop() if content.startswith("}") and open_lines else []
        if content.endswith("{"):
            open_lines.append([*opened, number])
            continue
        if content.startswith("^"):  # a block with its arguments
            content = content.removesuffix(":")
        if not content.startswith("#") and (match := _LAST.match(content)) is not None:
            found.update(dict.fromkeys([*opened, number], match[1]))
    for number in sorted(found):
        yield number, list(_expanded(found[number], aliases, 0))


def _expanded(location: str, aliases: dict[str, str], depth: int) -> Iterator[tuple[str, int]]:
    for match in _PLACE.finditer(location):
        if match[3] is None:
            yield _unescaped(match[1]), int(match[2]) - 1
        elif depth < _DEEPEST:
            yield from _expanded(aliases.get(match[3], ""), aliases, depth + 1)


def _unescaped(name: str) -> str:
    """Return the file name of a literal: a backslash and two hexadecimal digits are one byte of UTF-8."""

    def byte(match: re.Match[bytes]) -> bytes:
        return b"\\" if match[1] == b"\\" else bytes.fromhex(match[1].decode())

    return _ESCAPE.sub(byte, name.encode()).decode("utf-8", "surrogateescape")


def _same(one: str, other: str) -> bool:
    return os.path.normpath(one) == os.path.normpath(other)

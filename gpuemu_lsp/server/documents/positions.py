"""The engine counts columns in UTF-8 bytes, a client in the units it asked for (LSP 3.17, PositionEncodingKind)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, TypeAlias

from gpuemu_lsp.engine.findings import Position

Encoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]


def byte_position(lines: Sequence[str], position: Position, encoding: Encoding) -> Position:
    """Return a client's position as line and byte column, kept within the text and on a character's border."""
    if position.line >= len(lines):
        return Position(len(lines) - 1, _size(lines[-1]))
    line = lines[max(position.line, 0)]
    left = position.column
    taken = 0
    for character in line:
        width = _width(character, encoding)
        if left < width:
            break
        left -= width
        taken += _width(character, "utf-8")
    return Position(max(position.line, 0), taken)


def client_position(lines: Sequence[str], position: Position, encoding: Encoding) -> Position:
    """Return a line and byte column in the client's units, kept within the text and on a character's border."""
    if position.line >= len(lines):
        last = len(lines) - 1
        return Position(last, sum(_width(character, encoding) for character in lines[last]))
    left = position.column
    taken = 0
    for character in lines[position.line].removesuffix("\r"):
        left -= _width(character, "utf-8")
        if left < 0:
            break
        taken += _width(character, encoding)
    return Position(position.line, taken)


def _size(line: str) -> int:
    return sum(_width(character, "utf-8") for character in line)


def _width(character: str, encoding: Encoding) -> int:
    """Return how many code units a character takes."""
    code = ord(character)
    if encoding == "utf-16":
        return 1 if code < 0x10000 else 2
    if encoding == "utf-32" or code < 0x80:
        return 1
    return 2 if code < 0x800 else 3 if code < 0x10000 else 4

"""Conversion of locations: the client's URIs and positions to the engine's paths and byte positions, and back.

The engine counts columns in UTF-8 bytes; the client counts in code units of the encoding negotiated at ``initialize``
(LSP 3.17, PositionEncodingKind).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Literal, TypeAlias

from lsprotocol import types
from pygls.uris import from_fs_path, to_fs_path

from gpuemu_lsp.engine.findings import Position, Range

Encoding: TypeAlias = Literal["utf-8", "utf-16", "utf-32"]


def path_from_uri(uri: str) -> str | None:
    """Return the absolute path of a ``file:`` URI; None for ``untitled:``, ``git:`` and other schemes."""
    path = to_fs_path(re.sub("^file://localhost/", "file:///", uri, flags=re.IGNORECASE))  # equivalent: RFC 8089
    return os.path.normpath(path) if path else None


def uri_from_path(path: str) -> str:
    """Return the URI of a file, for files the client has not opened under a URI of its own."""
    return from_fs_path(path) or ""


def byte_position(lines: Sequence[str], position: Position, encoding: Encoding) -> Position:
    """Return a client's position as line and byte column, clamped to the text and to a character boundary."""
    if position.line >= len(lines):
        return Position(len(lines) - 1, _byte_length(lines[-1]))
    line = lines[max(position.line, 0)]
    left = position.column
    column = 0
    for character in line:
        width = _width(character, encoding)
        if left < width:
            break
        left -= width
        column += _width(character, "utf-8")
    return Position(max(position.line, 0), column)


def client_position(lines: Sequence[str], position: Position, encoding: Encoding) -> Position:
    """Return a byte position in the client's code units, clamped to the text and to a character boundary."""
    if position.line >= len(lines):
        last = len(lines) - 1
        return Position(last, sum(_width(character, encoding) for character in lines[last]))
    left = position.column
    column = 0
    line = lines[position.line].removesuffix("\r")
    if line.isascii():
        return Position(position.line, max(0, min(left, len(line))))
    for character in line:
        left -= _width(character, "utf-8")
        if left < 0:
            break
        column += _width(character, encoding)
    return Position(position.line, column)


def client_range(lines: Sequence[str], span: Range, encoding: Encoding) -> types.Range:
    """Return a byte range in the client's code units."""
    start, end = (client_position(lines, position, encoding) for position in (span.start, span.end))
    return types.Range(types.Position(start.line, start.column), types.Position(end.line, end.column))


def _byte_length(line: str) -> int:
    return sum(_width(character, "utf-8") for character in line)


def _width(character: str, encoding: Encoding) -> int:
    """Return the number of code units of a character."""
    code = ord(character)
    if encoding == "utf-16":
        return 1 if code < 0x10000 else 2
    if encoding == "utf-32" or code < 0x80:
        return 1
    return 2 if code < 0x800 else 3 if code < 0x10000 else 4

"""Source lines, and conversion of byte columns to the units of each format."""

from __future__ import annotations

import codecs
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.regular_file import file_bytes


def _lines(path: str) -> tuple[bytes, ...]:
    try:
        status = Path(path).stat()
        return _read(path, status.st_mtime_ns, status.st_size)
    except (OSError, ValueError):
        return ()


@lru_cache(maxsize=64)
def _read(path: str, time: int, size: int) -> tuple[bytes, ...]:
    """Read a file; ``time`` and ``size`` are part of the cache key. A byte order mark has no column."""
    return tuple(file_bytes(path).removeprefix(codecs.BOM_UTF8).split(b"\n"))


def line_bytes(path: str, line: int) -> bytes:
    """Return one 0-based line without its line end; empty if it does not exist."""
    lines = _lines(path)
    return lines[line].rstrip(b"\r") if 0 <= line < len(lines) else b""


def line_text(path: str, line: int) -> str:
    """Return one 0-based line as text."""
    return line_bytes(path, line).decode("utf-8", "replace")


def characters(path: str, position: Position) -> int:
    """Return a column in code points, the unit of terminals and GitHub."""
    return len(line_bytes(path, position.line)[: position.column].decode("utf-8", "replace"))


def utf16(path: str, position: Position) -> int:
    """Return a column in UTF-16 code units, the default unit of LSP (LSP 3.17, Position)."""
    text = line_bytes(path, position.line)[: position.column].decode("utf-8", "replace")
    return len(text.encode("utf-16-le")) // 2


def forget() -> None:
    """Drop cached files."""
    _read.cache_clear()

"""Build files around a source, and their texts, cached by size and time."""

# ruff: noqa: PTH116, PTH118, PTH120, PTH123, PTH208

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

_MAX_BYTES = 8 << 20
_MAX_LEVELS = 8
_ROOTS = frozenset({".git", ".hg", ".svn"})


def file_text(path: str) -> str | None:
    """Return the text of a regular file of at most 8 MiB, invalid UTF-8 as replacement characters; else None."""
    found = stamp(path)
    return None if found is None else _text(path, found)


def stamp(path: str) -> tuple[int, int] | None:
    """Return the time of the last change (nanoseconds) and size of a regular file, None if it is not one."""
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:
        return None
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=256)
def _text(path: str, found: tuple[int, int]) -> str | None:
    del found  # a part of the cache's key
    try:
        with open(path, encoding="utf-8-sig", errors="replace", newline=None) as file:
            return file.read()
    except OSError:
        return None


def folders_above(path: str) -> Iterator[str]:
    """Yield the folder of a file and those above it, up to the root of its project, a home directory or eight."""
    folder, home = os.path.dirname(path), str(Path.home())
    for _ in range(_MAX_LEVELS):
        if folder == home:
            return
        yield folder
        above = os.path.dirname(folder)
        if above == folder or any(os.path.lexists(os.path.join(folder, mark)) for mark in _ROOTS):
            return
        folder = above


def names_in(folder: str) -> frozenset[str]:
    """Return the names in a folder; empty if it cannot be read."""
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()

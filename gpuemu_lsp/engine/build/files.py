"""Build files around a source, and their texts, cached by size and time."""

# ruff: noqa: PTH116, PTH118, PTH120, PTH208

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine import regular_file

_MAX_BYTES = 8 << 20
_MAX_LEVELS = 8
_MAX_FOLDERS = 3000
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
        return regular_file.file_text(path, "replace", _MAX_BYTES)
    except OSError:
        return None


def folders_above(path: str) -> Iterator[str]:
    """Yield the folder of a file and those above it: at most eight, up to the root of its project.

    The home directory and those above it belong to no project, nor does a directory of the root such as ``/tmp``.
    """
    folder, home = os.path.dirname(path), str(Path.home())
    for level in range(_MAX_LEVELS):
        if folder == home or (level and os.path.dirname(folder) in ("/", folder)):
            return
        yield folder
        above = os.path.dirname(folder)
        if above == folder or any(os.path.lexists(os.path.join(folder, mark)) for mark in _ROOTS):
            return
        folder = above


def globbed(pattern: str, root: str) -> list[str]:
    """Return the files below ``root`` that an absolute pattern matches; ``**`` stands for any folders.

    At most 3,000 folders are visited. A pattern outside of ``root``, which an unknown variable may make, matches none.
    """
    fixed = re.split(r"/[^/]*[*?\[]", pattern)[0]
    if fixed != root and not fixed.startswith(f"{root}/"):
        return []
    parts = re.split(r"(\*\*/|\*|\?)", pattern)
    matching = {"**/": "(?:.*/)?", "*": "[^/]*", "?": "[^/]"}
    wanted = re.compile("".join(matching.get(part, re.escape(part)) for part in parts))
    found: list[str] = []
    for left, (here, folders, files) in zip(range(_MAX_FOLDERS), os.walk(fixed), strict=False):
        del left
        folders[:] = sorted(inner for inner in folders if not inner.startswith(".")) if "**" in pattern else []
        found += (path for name in files if wanted.fullmatch(path := f"{here}/{name}"))
    return sorted(found)


def names_in(folder: str) -> frozenset[str]:
    """Return the names in a folder; empty if it cannot be read."""
    try:
        return frozenset(os.listdir(folder))
    except OSError:
        return frozenset()

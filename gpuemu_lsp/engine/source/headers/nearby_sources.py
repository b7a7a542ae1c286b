"""The sources near a file, and which names each of them may launch: asked at every save, so read once per change.

Paths are strings in here: hundreds of files are looked at, and to make a ``Path`` of each takes longer than that.
"""

# ruff: noqa: PTH110, PTH116, PTH118, PTH120, PTH122, PTH123

from __future__ import annotations

import itertools
import os
import re
import stat
import time
from collections.abc import Iterator
from typing import TypeAlias

from gpuemu_lsp.engine.source.headers.search_folders import TOP

_SOURCES = frozenset({".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp"})
_SKIPPED = frozenset({"node_modules", "build", "dist", "site-packages", "__pycache__"})
_LAUNCHES = re.compile(b"<<<|cudaLaunch")
_LAUNCHED = re.compile(rb"(?<![\w\x80-\xff])([\w\x80-\xff]+)\s*[<,]")
"""Looked for at the beginnings of words only: a long one is not gone over again from each of its letters."""
_MAX_LEVELS = 4
_MAX_FILES = 400
_MAX_FOLDERS = 1000
"""A header in a home folder has no project: whatever lies there is not searched to its end."""
_MAX_BYTES = 1 << 20
_KEPT = 4096
_SETTLED_SECONDS = 2.0
"""A file that was written just now may be written again within one tick of its clock: it is read each time."""


def sources_near(path: str) -> Iterator[str]:
    """Yield the sources of the project round a file, those in its own folder first, then those of folders above."""
    return itertools.islice(_outwards(os.path.dirname(path)), _MAX_FILES)


def content(path: str) -> bytes | None:
    """Return what a file says; None for one that is too long, cannot be read or is no file."""
    return None if _stamp(path) is None else _content(path)


def launched_names(path: str) -> frozenset[bytes]:
    """Return every name in a file that may be that of a kernel it launches: none where nothing is launched."""
    stamp = _stamp(path)
    known = _known.get(path)
    if known is not None and known[0] == stamp:
        return known[1]
    text = None if stamp is None else _content(path)
    names = frozenset(_LAUNCHED.findall(text)) if text is not None and _LAUNCHES.search(text) else frozenset()
    if stamp is not None and time.time() - stamp[-1] / 1e9 > _SETTLED_SECONDS:
        while len(_known) >= _KEPT:
            _known.pop(next(iter(_known)), None)
        _known[path] = (stamp, names)
    return names


_Stamp: TypeAlias = tuple[int, int, int, int]
"""What tells one state of a file from another; the last is when it changed, in nanoseconds."""
_known: dict[str, tuple[_Stamp, frozenset[bytes]]] = {}


def _stamp(path: str) -> _Stamp | None:
    try:
        status = os.stat(path)
    except OSError:
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:  # to open a pipe is to wait
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _content(path: str) -> bytes | None:
    try:
        with open(path, "rb", buffering=0) as file:
            return file.read()
    except OSError:
        return None


def _outwards(folder: str) -> Iterator[str]:
    seen = None
    left = _MAX_FOLDERS
    for _ in range(_MAX_LEVELS):
        for here, folders, files in os.walk(folder):
            left -= 1
            if left < 0:
                return
            folders[:] = sorted(
                inner
                for inner in folders
                if not inner.startswith(".") and inner not in _SKIPPED and os.path.join(here, inner) != seen
            )
            for file in sorted(files):
                if os.path.splitext(file)[1] in _SOURCES:
                    yield os.path.join(here, file)
        above = os.path.dirname(folder)
        if above == folder or any(os.path.exists(os.path.join(folder, mark)) for mark in TOP):
            return
        seen, folder = folder, above

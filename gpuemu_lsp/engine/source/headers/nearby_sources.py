"""Source files near a file, and the names of kernels that each of them may launch.

Both are needed at every save, so launched names are cached by the file's inode, size and times. Paths are strings:
hundreds of files are visited, and constructing a ``Path`` for each would dominate.
"""

# ruff: noqa: PTH110, PTH111, PTH116, PTH118, PTH120, PTH122

from __future__ import annotations

import itertools
import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from typing import TypeAlias

from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.source.headers.search_folders import TOP

_SOURCES = frozenset({".cu", ".cuh", ".hip", ".cpp", ".cc", ".cxx", ".c", ".h", ".hpp"})
_REPOSITORY = frozenset({".git", ".hg"})
_SKIPPED = frozenset({"node_modules", "build", "dist", "site-packages", "__pycache__"})
_LAUNCHES = re.compile(rb"<<\s?<|cudaLaunch")
_LOOKUPS = re.compile(b"ModuleGetFunction|LibraryGetKernel|nvrtc(?:AddNameExpression|GetLoweredName)")
_NAMED = re.compile(rb"\"(?:[\w.-]+/)*([A-Za-z_]\w*)")
_LAUNCHED = re.compile(rb"(?<![\w\x80-\xff])([\w\x80-\xff]+)\s*[<,\[]")
"""The lookbehind anchors matches at the start of a word; without it a long word takes quadratic time.

The name of a table of kernels stands in front of a bracket.
"""
_CALLED = re.compile(rb"(?<![\w\x80-\xff])([\w\x80-\xff]+)\s*[<(]")
_MAX_LEVELS = 4
_MAX_FILES = 400
_MAX_FOLDERS = 1000
"""Bound for a header outside of any project, in a home directory for example."""
_MAX_BYTES = 1 << 20
_KEPT = 4096
_SETTLED_SECONDS = 2.0
"""Minimum age of a cached file: two writes within one tick of the file system's clock have equal times."""


def sources_near(path: str) -> Iterator[str]:
    """Yield the source files of the project around a file: its own directory first, then parent directories."""
    return itertools.islice(_outwards(os.path.dirname(path)), _MAX_FILES)


def content(path: str) -> bytes | None:
    """Return the bytes of a file; None if it exceeds 1 MiB, cannot be read or is not a regular file."""
    return None if _stamp(path) is None else _content(path)


def launched_names(path: str) -> frozenset[bytes]:
    """Return the names in a file that may be kernels it launches; empty for a file without launches."""
    return _names(path, _launched, _known)


def named_strings(path: str) -> frozenset[bytes]:
    """Return the names that strings of a file begin with, if it finds kernels of modules by their names."""
    return _names(path, _strings, _known_strings)


def called_names(path: str) -> frozenset[bytes]:
    """Return the names in a file that may be functions it calls, declares or defines."""
    return _names(path, _called, _known_calls)


def _launched(text: bytes) -> frozenset[bytes]:
    return frozenset(_LAUNCHED.findall(text)) if _LAUNCHES.search(text) else frozenset()


def _strings(text: bytes) -> frozenset[bytes]:
    return frozenset(_NAMED.findall(text)) if _LOOKUPS.search(text) else frozenset()


def _called(text: bytes) -> frozenset[bytes]:
    return frozenset(_CALLED.findall(text))


def _names(path: str, read: Callable[[bytes], frozenset[bytes]], known_names: _NamesByPath) -> frozenset[bytes]:
    stamp = _stamp(path)
    known = known_names.get(path)
    if known is not None and known[0] == stamp:
        return known[1]
    text = None if stamp is None else _content(path)
    names = read(text) if text is not None else frozenset()
    if stamp is not None and time.time() - stamp[-1] / 1e9 > _SETTLED_SECONDS:
        while len(known_names) >= _KEPT:
            known_names.pop(next(iter(known_names)), None)
        known_names[path] = (stamp, names)
    return names


_Stamp: TypeAlias = tuple[int, int, int, int]
"""Inode, size, modification and status change time (nanoseconds) of a file."""
_NamesByPath: TypeAlias = dict[str, tuple[_Stamp, frozenset[bytes]]]
_known: _NamesByPath = {}
_known_calls: _NamesByPath = {}
_known_strings: _NamesByPath = {}


def _stamp(path: str) -> _Stamp | None:
    try:
        status = os.stat(path)
    except (OSError, ValueError):
        return None
    if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:  # opening a FIFO would block
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns


def _content(path: str) -> bytes | None:
    try:
        return file_bytes(path, _MAX_BYTES)
    except OSError:
        return None


def _outwards(folder: str) -> Iterator[str]:
    seen, home = None, os.path.expanduser("~")
    left = _MAX_FOLDERS
    for _ in range(_MAX_LEVELS):
        for here, folders, files in os.walk(folder):
            left -= 1
            if left < 0:
                return
            if here != folder and not _REPOSITORY.isdisjoint((*folders, *files)):
                folders.clear()  # another project
                continue
            # In place, as os.walk requires; the directory that the previous level has visited is left out.
            folders[:] = sorted(
                inner
                for inner in folders
                if not inner.startswith(".") and inner not in _SKIPPED and os.path.join(here, inner) != seen
            )
            for file in sorted(files):
                if os.path.splitext(file)[1] in _SOURCES:
                    yield os.path.join(here, file)
        above = os.path.dirname(folder)
        if above == home or os.path.dirname(above) in ("/", above):
            return  # the home directory and those of the root, such as /tmp, are in no project
        if any(os.path.exists(os.path.join(folder, mark)) for mark in TOP):
            return
        seen, folder = folder, above

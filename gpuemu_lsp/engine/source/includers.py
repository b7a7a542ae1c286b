"""The files that include another: the launches of its kernels stand there, and what it needs to compile.

Kernels are often templates in a ``.cuh`` and their launches in the one ``.cu`` that includes it. Read alone, such a
header does not say which instance is meant, nor how it is launched. A ``.cu`` may be included like a header, too.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from gpuemu_lsp.engine.source.constants import file_constants
from gpuemu_lsp.engine.source.folders import TOP
from gpuemu_lsp.engine.source.includes import include_closure, load
from gpuemu_lsp.engine.source.launches import launches
from gpuemu_lsp.engine.source.lexer import decode
from gpuemu_lsp.engine.source.model import Launch
from gpuemu_lsp.engine.source.view import device_views

_HEADERS = frozenset({".cuh", ".h", ".hpp", ".hh", ".inl", ".inc"})
_INCLUDERS = frozenset({".cu", ".cuh", ".cpp", ".cc", ".h", ".hpp"})
_SKIPPED = frozenset({"node_modules", "build", "dist", "site-packages", "__pycache__"})
_LAUNCHES = re.compile(b"<<<|cudaLaunch")
_MAX_LEVELS = 4
_MAX_FILES = 400
_MAX_FOLDERS = 1000
"""A header in a home folder has no project: whatever lies there is not searched to its end."""
_MAX_BYTES = 1 << 20


def launches_elsewhere(path: str, names: Iterable[str], include_dirs: Sequence[str] = ()) -> tuple[Launch, ...]:
    """Return the launches of a header's kernels in the files near it that include it, directly or not.

    Parameters
    ----------
    path
        Absolute path of the header, or of a source that others include.
    names
        Its kernels.
    include_dirs
        Folders to look for headers in.
    """
    wanted = frozenset(names)
    if not wanted:
        return ()
    launched = re.compile(rf"\b(?:{'|'.join(map(re.escape, sorted(wanted)))})\s*(?:<|,)".encode())
    found: list[Launch] = []
    for candidate in _nearby(Path(path)):
        if candidate == path or not _mentions(candidate, launched):
            continue
        text = load(candidate)
        if text is None or path not in include_closure(candidate, include_dirs):
            continue
        views = device_views(candidate, decode(text.raw), include_dirs)
        constants = file_constants(views.units, views.macros)
        found += [
            replace(launch, path=candidate)
            for launch in launches(views.units[0], constants, views.macros)
            if launch.kernel in wanted
        ]
    return tuple(found)


def includers(path: str, include_dirs: Sequence[str] = ()) -> Iterator[str]:
    """Yield the files near a header that include it, then those that include these: compiled sources before headers.

    Parameters
    ----------
    path
        Absolute path of the header, or of a source that others include.
    include_dirs
        Folders to look for headers in.
    """
    nearby = list(_nearby(Path(path)))
    seen, waiting = {path}, [path]
    while waiting:
        target = waiting.pop(0)
        including = re.compile(rb"#[ \t]*include\b[^\n]*" + re.escape(Path(target).name.encode()))
        named = [candidate for candidate in nearby if candidate not in seen and _says(candidate, including)]
        for candidate in sorted(named, key=lambda candidate: Path(candidate).suffix in _HEADERS):
            if target in include_closure(candidate, include_dirs):
                seen.add(candidate)
                waiting.append(candidate)
                yield candidate


def _nearby(path: Path) -> Iterator[str]:
    """Yield the sources of the project round a file, those in its own folder first, then those of folders above."""
    return itertools.islice(_outwards(path.parent), _MAX_FILES)


def _outwards(folder: Path) -> Iterator[str]:
    seen: Path | None = None
    left = _MAX_FOLDERS
    for _ in range(_MAX_LEVELS):
        for name, folders, files in os.walk(folder):
            left -= 1
            if left < 0:
                return
            here = Path(name)
            folders[:] = sorted(
                inner
                for inner in folders
                if not inner.startswith(".") and inner not in _SKIPPED and here / inner != seen
            )
            yield from ((here / file).as_posix() for file in sorted(files) if Path(file).suffix in _INCLUDERS)
        if folder.parent == folder or any((folder / mark).exists() for mark in TOP):
            return
        seen, folder = folder, folder.parent


def _mentions(path: str, launched: re.Pattern[bytes]) -> bool:
    return _says(path, _LAUNCHES) and _says(path, launched)


def _says(path: str, what: re.Pattern[bytes]) -> bool:
    try:
        status = Path(path).stat()
        if not stat.S_ISREG(status.st_mode) or status.st_size > _MAX_BYTES:  # to open a pipe is to wait
            return False
        return what.search(Path(path).read_bytes()) is not None
    except OSError:
        return False

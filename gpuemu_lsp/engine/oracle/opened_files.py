"""Files that a reference reads while it is loaded and called: its modules and its data.

Python reports every file it opens to audit hooks, also those that NumPy and the import system open. A hook cannot be
removed, so there is one for the process, which does nothing outside of a recording.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path

from gpuemu_lsp.engine.regular_file import file_bytes

_PACKAGE = str(Path(__file__).parents[2])
_INSTALLED = tuple({os.path.realpath(path) + os.sep for path in (sys.prefix, sys.base_prefix, _PACKAGE)})
_LARGEST = 64 * 1024 * 1024
_PSEUDO = ("/dev/", "/proc/", "/sys/")

_opened: dict[str, tuple[int, int]] = {}
"""Time of modification and size of each file when it was first opened."""
_recording = False
_hooked = False


@contextlib.contextmanager
def recorded_files() -> Iterator[None]:
    """Record the files that the body opens."""
    global _recording, _hooked
    if not _hooked:
        sys.addaudithook(_on_event)
        _hooked = True
    before, _recording = _recording, True
    try:
        yield
    finally:
        _recording = before


def forget_files() -> None:
    """Begin another recording."""
    _opened.clear()


def file_digests() -> Mapping[str, str] | None:
    """Return a digest of every recorded file, None if one has changed since it was opened.

    Modules that were loaded earlier, outside of the reference's folder, count too.
    """
    loaded = (getattr(module, "__file__", None) for module in list(sys.modules.values()))
    found = dict(_opened)
    for path in loaded:
        if isinstance(path, str) and path not in found and _is_own(path) and (stamp := _stamp(path)) is not None:
            found[path] = stamp
    digests = {}
    for path, stamp in found.items():
        digest = file_digest(path) if _stamp(path) == stamp else None
        if digest is None:
            return None
        digests[path] = digest
    return digests


def file_digest(path: str) -> str | None:
    """Return a digest of a file's content, None if it cannot be read or is too large."""
    stamp = _stamp(path)
    if stamp is None or stamp[1] > _LARGEST:
        return None
    try:
        return hashlib.blake2b(file_bytes(path, _LARGEST), digest_size=16).hexdigest()
    except OSError:
        return None


def _on_event(event: str, arguments: tuple[object, ...]) -> None:
    if not _recording or event != "open" or not isinstance(arguments[0], (str, bytes, os.PathLike)):
        return
    path = os.path.abspath(os.fsdecode(arguments[0]))  # noqa: PTH100 - called for every file, and links stay as named
    if path.endswith(".pyc"):
        # The source decides: an edited module is read again, with its compiled file as it was.
        with contextlib.suppress(ValueError, NotImplementedError):
            path = importlib.util.source_from_cache(path)
    if path not in _opened and _is_own(path) and (stamp := _stamp(path)) is not None:
        _opened[path] = stamp


@lru_cache(maxsize=4096)
def _is_own(path: str) -> bool:
    """Return whether a file may be edited by the user: not of Python, an installed package or this one."""
    return not os.path.realpath(path).startswith((*_INSTALLED, *_PSEUDO))


def _stamp(path: str) -> tuple[int, int] | None:
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return None
    return (status.st_mtime_ns, status.st_size) if stat.S_ISREG(status.st_mode) else None

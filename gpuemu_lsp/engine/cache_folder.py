"""Files kept from one process to the next, by the content of what they were made from.

Writers rename a finished file into place, so processes may share a folder; readers check what they read. A folder that
cannot be used is no error: nothing is kept then, and nothing found.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

import platformdirs


def cache_root() -> Path:
    """Return the folder of all that is kept for this user: ``$GPUEMU_CACHE_DIR``, or where caches belong."""
    root = os.environ.get("GPUEMU_CACHE_DIR")
    return Path(root) if root else platformdirs.user_cache_path("gpuemu-lsp")


class CacheFolder:
    """A folder of files that stays below ``limit_bytes``, but for what was written since it was last swept."""

    def __init__(self, folder: Path, limit_bytes: int, writes_between_sweeps: int) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._writes_between_sweeps = writes_between_sweeps
        self._writes = 0

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None."""
        try:
            return (self._folder / name).read_bytes()
        except OSError:
            return None

    def read_private(self, name: str) -> bytes | None:
        """Return a file's content, or None; None also if anybody else could have written it."""
        try:
            if not _private(self._folder.stat()):
                return None
            with (self._folder / name).open("rb") as stream:
                return stream.read() if _private(os.fstat(stream.fileno())) else None
        except OSError:
            return None

    def used(self, name: str) -> None:
        """Note that a file was of use: the sweep removes what was used longest ago."""
        with contextlib.suppress(OSError):
            os.utime(self._folder / name)

    def write(self, name: str, content: bytes) -> None:
        """Store a file that only its owner can read; a full or read-only disk is no error."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=".new-")
        except OSError:
            return
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            Path(temporary).replace(self._folder / name)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            return
        if self._writes % self._writes_between_sweeps == 0:
            self._sweep()
        self._writes += 1

    def _sweep(self) -> None:
        """Remove the files used longest ago until the folder is well below its limit."""
        entries = []
        for path in self._folder.iterdir():
            with contextlib.suppress(OSError):
                entries.append((path.stat().st_mtime, path.stat().st_size, path))
        total = sum(size for _, size, _ in entries)
        for _, size, path in sorted(entries) if total > self._limit else ():
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
            if total <= self._limit * 3 // 4:
                return


def _private(status: os.stat_result) -> bool:
    """Whether only this user can have written something."""
    owner = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

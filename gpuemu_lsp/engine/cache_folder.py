"""On-disk cache folders, shared by processes.

Files are named after a hash of their inputs. A writer renames a finished file into place, and readers validate the
content. A folder that cannot be used is not an error: writes are dropped, and reads find nothing.
"""

from __future__ import annotations

import contextlib
import os
import stat
import tempfile
from pathlib import Path

import platformdirs

from gpuemu_lsp.engine.regular_file import file_bytes, open_regular


def cache_root() -> Path:
    """Return the root of all caches: ``$GPUEMU_CACHE_DIR``, or the user's cache directory."""
    root = os.environ.get("GPUEMU_CACHE_DIR")
    return Path(root) if root else platformdirs.user_cache_path("gpuemu-lsp")


class CacheFolder:
    """A cache folder. It is swept to below ``limit_bytes`` after every ``writes_between_sweeps`` writes."""

    def __init__(self, folder: Path, limit_bytes: int, writes_between_sweeps: int) -> None:
        self.path = folder
        self._limit = limit_bytes
        self._writes_between_sweeps = writes_between_sweeps
        self._writes = 0

    def read(self, name: str) -> bytes | None:
        """Return a file's content, or None."""
        try:
            return file_bytes(self.path / name, self._limit)
        except OSError:
            return None

    def read_private(self, name: str) -> bytes | None:
        """Return a file's content; None if it is absent, or if another user could have written it."""
        try:
            if not _private(self.path.stat()):
                return None
            with open_regular(self.path / name) as stream:
                return stream.read() if _private(os.fstat(stream.fileno())) else None
        except OSError:
            return None

    def used(self, name: str) -> None:
        """Record a use of a file: a sweep removes the least recently used files."""
        with contextlib.suppress(OSError):
            os.utime(self.path / name)

    def write(self, name: str, content: bytes) -> None:
        """Store a file that only its owner can read; a full or read-only disk is not an error."""
        try:
            self.path.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, temporary = tempfile.mkstemp(dir=self.path, prefix=".new-")
        except OSError:
            return
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(content)
            Path(temporary).replace(self.path / name)
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            return
        if self._writes % self._writes_between_sweeps == 0:
            self._sweep()
        self._writes += 1

    def _sweep(self) -> None:
        """Remove the least recently used files until the folder is at most three quarters of its limit."""
        entries = []
        for path in self.path.iterdir():
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
    """Return whether only this user can have written a file or folder."""
    owner = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

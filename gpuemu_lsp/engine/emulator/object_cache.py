"""Machine code on disk, by the content of everything that decides it.

An entry is one file: a magic word, the key, the length and a BLAKE2 digest of what follows, then an object file. It is
code that will run in this process: an entry is used only if the file and its folder belong to this user, nobody else
may write them, and every field checks out. Anything else is ignored and replaced. Writers rename a finished file into
place, so processes may share the folder.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import struct
import tempfile
from collections.abc import Iterable
from functools import cache
from pathlib import Path

import platformdirs

_MAGIC = b"gpuemu machine code 1\n"
_HEAD = struct.Struct("<32s32sQ")
_LIMIT_BYTES = 128 * 1024 * 1024
_WRITES_BETWEEN_SWEEPS = 32


class ObjectCache:
    """A folder of object files. Without a usable folder it stores nothing and finds nothing."""

    def __init__(self, folder: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._writes = 0

    def load(self, key: bytes) -> bytes | None:
        """Return the object file stored under a key of 32 bytes, or None."""
        path = self._folder / key.hex()
        try:
            if not _private(self._folder.stat()):
                return None
            with path.open("rb") as stream:
                if not _private(os.fstat(stream.fileno())):
                    return None
                raw = stream.read()
        except OSError:
            return None
        code = _decode(key, raw)
        if code is not None:
            with contextlib.suppress(OSError):
                os.utime(path)  # the sweep removes what was used longest ago
        return code

    def store(self, key: bytes, code: bytes) -> None:
        """Store an object file; a full or read-only disk is no error."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=".new-")  # only its owner can read it
        except OSError:
            return
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(_MAGIC + _HEAD.pack(key, _digest(code), len(code)) + code)
            Path(temporary).replace(self._folder / key.hex())
        except OSError:
            Path(temporary).unlink(missing_ok=True)
            return
        if self._writes % _WRITES_BETWEEN_SWEEPS == 0:
            self._sweep()
        self._writes += 1

    def _sweep(self) -> None:
        """Remove the entries used longest ago until the folder is well below its limit."""
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


@cache
def shared_cache() -> ObjectCache:
    """Return the cache of this user: in ``$GPUEMU_CACHE_DIR``, or where caches belong."""
    root = os.environ.get("GPUEMU_CACHE_DIR")
    return ObjectCache((Path(root) if root else platformdirs.user_cache_path("gpuemu-lsp")) / "machine-code")


def code_digest() -> bytes:
    """Return a digest of the translator's files as they are on disk: this room's and the PTX reader's."""
    here = Path(__file__).parent
    digest = hashlib.blake2b(digest_size=32)
    for path in sorted((*here.rglob("*.py"), *(here.parent / "ptx").rglob("*.py"))):
        digest.update(path.relative_to(here.parent).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.digest()


_OURS = code_digest()
"""Read when the translator itself is: an upgrade under a running server must not pass its old code off as new."""


def key_of(parts: Iterable[str]) -> bytes:
    """Return the key for what these texts and the translator determine; no two different lists share one."""
    digest = hashlib.blake2b(_OURS, digest_size=32)
    for part in parts:
        raw = part.encode()
        digest.update(struct.pack("<Q", len(raw)) + raw)
    return digest.digest()


def _digest(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=32).digest()


def _decode(key: bytes, raw: bytes) -> bytes | None:
    """Read an entry strictly; None for anything that is not exactly what :meth:`ObjectCache.store` writes."""
    start = len(_MAGIC) + _HEAD.size
    if len(raw) < start or not raw.startswith(_MAGIC):
        return None
    stored, digest, length = _HEAD.unpack(raw[len(_MAGIC) : start])
    code = raw[start:]
    return code if stored == key and length == len(code) and digest == _digest(code) else None


def _private(status: os.stat_result) -> bool:
    """Whether only this user can have written something."""
    owner = not hasattr(os, "geteuid") or status.st_uid == os.geteuid()
    return owner and not status.st_mode & (stat.S_IWGRP | stat.S_IWOTH)

"""Disk cache of machine code, addressed by a digest of all inputs of the compilation.

An entry is one file: a magic number, the key, the length and a BLAKE2 digest of the content, then an object file. The
content will be executed: an entry is used only if file and folder belong to the current user, no other user may write
them, and every field is valid. Anything else is ignored and replaced.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import CacheFolder, cache_root

_MAGIC = b"gpuemu machine code 1\n"
_HEAD = struct.Struct("<32s32sQ")
_LIMIT_BYTES = 128 * 1024 * 1024
_WRITES_BETWEEN_SWEEPS = 32


class ObjectCache:
    """A folder of object files. If the folder cannot be used, every lookup misses and stores are ignored."""

    def __init__(self, folder: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._files = CacheFolder(folder, limit_bytes, _WRITES_BETWEEN_SWEEPS)

    def load(self, key: bytes) -> bytes | None:
        """Return the object file stored under a key of 32 bytes, or None."""
        raw = self._files.read_private(key.hex())
        code = _decode(key, raw) if raw is not None else None
        if code is not None:
            self._files.used(key.hex())
        return code

    def store(self, key: bytes, code: bytes) -> None:
        """Store an object file; ignored if the folder cannot be written."""
        self._files.write(key.hex(), _MAGIC + _HEAD.pack(key, _digest(code), len(code)) + code)


@cache
def shared_cache() -> ObjectCache:
    """Return the cache of the current user."""
    return ObjectCache(cache_root() / "machine-code")


_ENGINE = Path(__file__).parents[2]


def translator_files() -> list[Path]:
    """Return the source files that decide the machine code: the emulator's and the PTX reader's."""
    return sorted((*(_ENGINE / "emulator").rglob("*.py"), *(_ENGINE / "ptx").rglob("*.py")))


def _code_digest() -> bytes:
    digest = hashlib.blake2b(digest_size=32)
    for path in translator_files():
        digest.update(path.relative_to(_ENGINE).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.digest()


_TRANSLATOR_DIGEST = _code_digest()
# Computed at import, not per key: when the package is upgraded under a running server, code that the old modules
# translate must not be stored under the key of the new ones.


def key_of(parts: Iterable[str]) -> bytes:
    """Return the key of code that is determined by ``parts`` and the translator's sources."""
    digest = hashlib.blake2b(_TRANSLATOR_DIGEST, digest_size=32)
    for part in parts:
        raw = part.encode()
        # Lengths keep ["ab", "c"] and ["a", "bc"] apart.
        digest.update(struct.pack("<Q", len(raw)) + raw)
    return digest.digest()


def _digest(code: bytes) -> bytes:
    return hashlib.blake2b(code, digest_size=32).digest()


def _decode(key: bytes, raw: bytes) -> bytes | None:
    """Return the object file of an entry; None unless :meth:`ObjectCache.store` wrote it for ``key``."""
    start = len(_MAGIC) + _HEAD.size
    if len(raw) < start or not raw.startswith(_MAGIC):
        return None
    stored, digest, length = _HEAD.unpack(raw[len(_MAGIC) : start])
    code = raw[start:]
    return code if stored == key and length == len(code) and digest == _digest(code) else None

"""Objects of compilations by content: a source that is compiled again, unchanged, costs no compilation.

The key has the source with its local headers, the options, and the versions of the compilers and of PyTorch; of these
the headers are not read.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import CacheFolder, cache_root

_LIMIT_BYTES = 1 << 30
_WRITES_BETWEEN_SWEEPS = 16


class HostObjects:
    """The objects in the cache folder of this user."""

    def __init__(self) -> None:
        self._folder = CacheFolder(cache_root() / "objects", _LIMIT_BYTES, _WRITES_BETWEEN_SWEEPS)

    @staticmethod
    def key(text: str, source: Path, options: Sequence[str], versions: Sequence[str]) -> str:
        """Return the name of an object. It has the path of its source, which findings show."""
        content = repr((text, str(source.resolve()), tuple(options), tuple(versions)))
        return f"{hashlib.blake2b(content.encode('utf-8', 'replace'), digest_size=16).hexdigest()}.o"

    def restore(self, key: str, target: Path) -> bool:
        """Write an object to its place; return whether it is there."""
        content = self._folder.read_private(key)
        if content is None:
            return False
        target.write_bytes(content)
        self._folder.used(key)
        return True

    def store(self, key: str, target: Path) -> None:
        """Keep an object that was compiled."""
        self._folder.write(key, target.read_bytes())


def file_identity(path: Path) -> str:
    """Return what changes with a file, without reading it."""
    try:
        status = path.stat()
    except OSError:
        return str(path)
    return f"{path} {status.st_size} {status.st_mtime_ns}"

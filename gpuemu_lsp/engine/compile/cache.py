"""Products of NVRTC on disk, by the content of everything that went in.

An entry is one file: a JSON line with sizes and a checksum, then the raw bytes. Writers rename a finished file into
place, so several processes may share the folder; what does not check out is ignored and replaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

import platformdirs

from gpuemu_lsp.engine.compile.program import Product

_VERSION = 1
_LIMIT_BYTES = 256 * 1024 * 1024
_WRITES_BETWEEN_SWEEPS = 64


class DiskCache:
    """A folder of products. Without a usable folder it stores nothing and finds nothing."""

    def __init__(self, folder: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._writes = 0

    def load(self, key: str) -> Product | None:
        """Return the product stored under ``key``, or None."""
        path = self._folder / key
        try:
            raw = path.read_bytes()
        except OSError:
            return None
        product = _decode(raw)
        if product is not None:
            with contextlib.suppress(OSError):
                os.utime(path)  # the sweep removes what was used longest ago
        return product

    def store(self, key: str, product: Product) -> None:
        """Store ``product``; a full or read-only disk is no error."""
        try:
            self._folder.mkdir(parents=True, exist_ok=True, mode=0o700)
            descriptor, temporary = tempfile.mkstemp(dir=self._folder, prefix=".new-")
        except OSError:
            return
        try:
            with os.fdopen(descriptor, "wb") as stream:
                stream.write(_encode(product))
            Path(temporary).replace(self._folder / key)
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
        if total <= self._limit:
            return
        for _, size, path in sorted(entries):
            with contextlib.suppress(OSError):
                path.unlink()
            total -= size
            if total <= self._limit * 3 // 4:
                return


def default_folder() -> Path:
    """Return the folder for compiled products: ``$GPUEMU_CACHE_DIR`` or the user's cache folder."""
    root = os.environ.get("GPUEMU_CACHE_DIR")
    return (Path(root) if root else platformdirs.user_cache_path("gpuemu-lsp")) / "compile"


def key_of(parts: Sequence[str]) -> str:
    """Return the name for what these texts determine; no two different lists share one."""
    digest = hashlib.blake2b(json.dumps([_VERSION, *parts]).encode(), digest_size=20)
    return digest.hexdigest()


def _encode(product: Product) -> bytes:
    ptx, log = product.ptx.encode(errors="replace"), product.log.encode(errors="replace")
    body = log + ptx + product.cubin
    head = {
        "version": _VERSION,
        "log": len(log),
        "ptx": len(ptx),
        "cubin": len(product.cubin),
        "lowered": dict(product.lowered),
        "checksum": _checksum(body),
    }
    return json.dumps(head).encode() + b"\n" + body


def _decode(raw: bytes) -> Product | None:
    """Read an entry strictly; None for anything that is not exactly what :func:`_encode` writes."""
    line, _, body = raw.partition(b"\n")
    try:
        head = json.loads(line)
    except ValueError:
        return None
    if not isinstance(head, dict) or head.get("version") != _VERSION or head.get("checksum") != _checksum(body):
        return None
    log, ptx, cubin, lowered = (head.get(name) for name in ("log", "ptx", "cubin", "lowered"))
    if not (isinstance(log, int) and isinstance(ptx, int) and isinstance(cubin, int) and isinstance(lowered, dict)):
        return None
    if min(log, ptx, cubin) < 0 or log + ptx + cubin != len(body):
        return None
    return Product(
        True,
        body[:log].decode(errors="replace"),
        body[log : log + ptx].decode(errors="replace"),
        body[log + ptx :],
        {str(expression): str(name) for expression, name in lowered.items()},
    )


def _checksum(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()

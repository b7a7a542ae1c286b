"""Products of NVRTC on disk, by the content of everything that went in.

An entry is one file: a JSON line with sizes and a checksum, then the raw bytes. What does not check out is ignored and
replaced.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import CacheFolder, cache_root
from gpuemu_lsp.engine.compile.program import NvrtcOutput

_VERSION = 1
_LIMIT_BYTES = 256 * 1024 * 1024
_WRITES_BETWEEN_SWEEPS = 64


class DiskCache:
    """A folder of products. Without a usable folder it stores nothing and finds nothing."""

    def __init__(self, folder: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._files = CacheFolder(folder, limit_bytes, _WRITES_BETWEEN_SWEEPS)

    def load(self, key: str) -> NvrtcOutput | None:
        """Return the product stored under ``key``, or None."""
        raw = self._files.read(key)
        product = _decode(raw) if raw is not None else None
        if product is not None:
            self._files.used(key)
        return product

    def store(self, key: str, product: NvrtcOutput) -> None:
        """Store ``product``, or do nothing where that cannot be."""
        self._files.write(key, _encode(product))


def default_folder() -> Path:
    """Return the folder for compiled products."""
    return cache_root() / "compile"


def key_of(parts: Sequence[str]) -> str:
    """Return the name for what these texts determine; no two different lists share one."""
    digest = hashlib.blake2b(json.dumps([_VERSION, *parts]).encode(), digest_size=20)
    return digest.hexdigest()


def _encode(product: NvrtcOutput) -> bytes:
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


def _decode(raw: bytes) -> NvrtcOutput | None:
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
    return NvrtcOutput(
        True,
        body[:log].decode(errors="replace"),
        body[log : log + ptx].decode(errors="replace"),
        body[log + ptx :],
        {str(expression): str(name) for expression, name in lowered.items()},
    )


def _checksum(body: bytes) -> str:
    return hashlib.blake2b(body, digest_size=16).hexdigest()

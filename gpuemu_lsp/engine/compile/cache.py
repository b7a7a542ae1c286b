"""On-disk cache of NVRTC outputs, addressed by a hash of all inputs.

An entry is one file: a JSON line with sizes and a checksum, then the log, PTX and cubin. An entry that fails validation
is ignored and overwritten.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import CacheFolder, cache_root
from gpuemu_lsp.engine.compile.program import NvrtcOutput

_VERSION = 1
_LIMIT_BYTES = 256 * 1024 * 1024
_REPORTS_LIMIT_BYTES = 16 * 1024 * 1024
_WRITES_BETWEEN_SWEEPS = 64


class DiskCache:
    """A directory of outputs; without a usable directory all lookups miss and nothing is stored."""

    def __init__(self, folder: Path, limit_bytes: int = _LIMIT_BYTES) -> None:
        self._folder = folder
        self._files = CacheFolder(folder, limit_bytes, _WRITES_BETWEEN_SWEEPS)

    @cached_property
    def reports(self) -> DiskCache:
        """The cache of ptxas' reports, in a directory next to this one."""
        return DiskCache(self._folder.with_name(f"{self._folder.name}-reports"), _REPORTS_LIMIT_BYTES)

    def load(self, key: str) -> NvrtcOutput | None:
        """Return the output stored under ``key``; None if there is none."""
        raw = self._files.read(key)
        output = _decode(raw) if raw is not None else None
        if output is not None:
            self._files.used(key)
        return output

    def store(self, key: str, output: NvrtcOutput) -> None:
        """Store ``output``; errors of the file system are ignored."""
        self._files.write(key, _encode(output))


def default_folder() -> Path:
    """Return the user's cache directory for compilations."""
    return cache_root() / "compile"


def key_of(parts: Sequence[str]) -> str:
    """Return the key of a list of texts; lists with equal concatenation but different elements have different keys."""
    digest = hashlib.blake2b(json.dumps([_VERSION, *parts]).encode(), digest_size=20)
    return digest.hexdigest()


def _encode(output: NvrtcOutput) -> bytes:
    ptx, log = output.ptx.encode(errors="replace"), output.log.encode(errors="replace")
    body = log + ptx + output.cubin
    head = {
        "version": _VERSION,
        "log": len(log),
        "ptx": len(ptx),
        "cubin": len(output.cubin),
        "lowered": dict(output.lowered),
        "checksum": _checksum(body),
    }
    return json.dumps(head).encode() + b"\n" + body


def _decode(raw: bytes) -> NvrtcOutput | None:
    """Decode an entry; None for anything but the exact result of :func:`_encode`."""
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

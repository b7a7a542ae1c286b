"""On-disk cache of verdicts, addressed by their keys.

An entry is JSON. One that cannot be decoded as a verdict, or that another user could have written, is ignored.
"""

from __future__ import annotations

import json
from functools import cache
from typing import TypeVar

from gpuemu_lsp.engine.cache_folder import CacheFolder, cache_root
from gpuemu_lsp.engine.workers.wire import WireError, from_json, to_json

_Verdict = TypeVar("_Verdict")
_LIMIT_BYTES = 64 * 1024 * 1024
_LARGEST_BYTES = 1024 * 1024
"""A verdict with more data is not stored: reading it would take longer than most checks."""
_WRITES_BETWEEN_SWEEPS = 64


@cache
def _folder() -> CacheFolder:
    return CacheFolder(cache_root() / "verdicts", _LIMIT_BYTES, _WRITES_BETWEEN_SWEEPS)


def load(key: str, kind: type[_Verdict]) -> _Verdict | None:
    """Return the verdict stored under a key, or None; ``kind`` is its class."""
    raw = _folder().read_private(key)
    if raw is None:
        return None
    try:
        verdict = from_json(kind, json.loads(raw))
    except (ValueError, WireError):
        return None
    _folder().used(key)
    return verdict


def store(key: str, verdict: object) -> None:
    """Store a verdict; errors of the file system are ignored."""
    raw = json.dumps(to_json(verdict)).encode("utf-8", "surrogatepass")
    if len(raw) <= _LARGEST_BYTES:
        _folder().write(key, raw)

"""From the client's URIs to the engine's paths, and back."""

from __future__ import annotations

import os
import re

from pygls.uris import from_fs_path, to_fs_path


def path_of(uri: str) -> str | None:
    """Return the absolute path of a ``file:`` URI; None for ``untitled:``, ``git:`` and the like."""
    path = to_fs_path(re.sub("^file://localhost/", "file:///", uri, flags=re.IGNORECASE))  # RFC 8089: the same
    return os.path.normpath(path) if path else None


def plain_uri(path: str) -> str:
    """Return the URI of a file that no client has spelled."""
    return from_fs_path(path) or ""

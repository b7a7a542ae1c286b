"""Locks of PyTorch's builds of extensions that do not outlive the process that holds them.

PyTorch creates a file before it builds, removes it afterwards, and waits for ever for one that a process which was
killed has left. Under ``gpuemu run``, which ends programs at their time limit, the file is marked and locked as well
(``flock(2)``), so that the next build sees that nothing holds it. A file without the mark may be that of a process that
does not lock it, and is waited for as before.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from pathlib import Path
from types import ModuleType
from typing import Any

_MARK = "held by flock\n"


def install(module: ModuleType) -> None:
    """Change ``FileBaton`` of ``torch.utils.file_baton``."""
    create = module.FileBaton.try_acquire

    def try_acquire(baton: Any) -> bool:
        path = Path(baton.lock_file_path)
        acquired: bool = create(baton)
        if not acquired and _is_abandoned(path):
            with contextlib.suppress(FileNotFoundError):
                path.unlink()
            acquired = create(baton)
        if acquired:
            fcntl.flock(baton.fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            path.write_text(_MARK, encoding="utf-8")
        return acquired

    module.FileBaton.try_acquire = try_acquire


def _is_abandoned(path: Path) -> bool:
    """Return whether a file is marked, and nothing holds its lock."""
    try:
        descriptor = os.open(path, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        return os.read(descriptor, len(_MARK)) == _MARK.encode()
    except OSError:
        return False
    finally:
        os.close(descriptor)

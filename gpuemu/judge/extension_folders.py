"""Folders in which extensions of answers are built: one for each text, kept in the cache.

Extensions have names of the answer's choice, which PyTorch takes for the same extension. What was built for the same
text before is used again.
"""

from __future__ import annotations

import fcntl
import hashlib
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from gpuemu_lsp.engine.cache_folder import cache_root

_MOST_FOLDERS = 400
"""Folders that are kept, of a few MiB each; the least recently used ones are removed first."""


@contextmanager
def extension_folder(text: str, temporary: Path) -> Iterator[Path]:
    """Yield the folder for the extensions of an answer: that of its text, or a temporary one while another has that."""
    root = cache_root() / "judge-extensions"
    folder = root / hashlib.blake2b(text.encode(), digest_size=16).hexdigest()
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = (root / f"{folder.name}.lock").open("w")
    except OSError:
        yield temporary / "extensions"
        return
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            yield temporary / "extensions"
            return
        # PyTorch waits for ever for the file of a process that was killed while it built.
        for stale in folder.rglob("lock"):
            stale.unlink(missing_ok=True)
        folder.touch()
        yield folder
        _remove_old(root)


def _remove_old(root: Path) -> None:
    folders = sorted((path for path in root.iterdir() if path.is_dir()), key=lambda path: path.stat().st_mtime)
    for path in folders[:-_MOST_FOLDERS]:
        shutil.rmtree(path, ignore_errors=True)
        path.with_suffix(".lock").unlink(missing_ok=True)

"""The private folder of a server: texts that came without a file, and failing cases of files without a project.

The folder is locked as long as its server lives. It is removed when the server ends; that of a server that was killed
by the next one that starts.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import shutil
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import IO

_PREFIX = "gpuemu-mcp-"
_LOCK = "lock"
_NEW_SECONDS = 60.0
"""A folder without a lock that is younger may be that of a server that is starting."""
_MOST_SOURCES = 32


class Workspace:
    """The folder, which only its user can open."""

    def __init__(self) -> None:
        _remove_abandoned()
        self.folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
        self._lock: IO[str] = (self.folder / _LOCK).open("w")
        fcntl.flock(self._lock, fcntl.LOCK_EX)
        self._sources: dict[str, Path] = {}

    def with_files(self, files: Mapping[str, str]) -> Path:
        """Return a folder with these files, by relative path; the same one for the same files.

        Raises
        ------
        ValueError
            If a name leads out of the folder.
        """
        digest = hashlib.sha256(repr(sorted(files.items())).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        folder = self.folder / "sources" / digest
        if digest not in self._sources:
            for name, text in files.items():
                path = Path(os.path.normpath(folder / name))
                if not path.is_relative_to(folder) or path == folder:
                    raise ValueError(f"{name!r} is not the name of a file in the folder")
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8", errors="surrogateescape")
        self._sources.pop(digest, None)
        self._sources[digest] = folder
        if len(self._sources) > _MOST_SOURCES:
            shutil.rmtree(self._sources.pop(next(iter(self._sources))), ignore_errors=True)
        return folder

    def store_of(self, path: str) -> Path:
        """Return the folder of the failing cases of a file that belongs to no project."""
        folder = self.folder / "stores" / hashlib.sha256(path.encode("utf-8", "surrogateescape")).hexdigest()[:16]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextlib.contextmanager
    def result_file(self) -> Iterator[Path]:
        """Return the path of a file that does not exist yet, and is removed after the block."""
        with tempfile.TemporaryDirectory(dir=self.folder) as folder:
            yield Path(folder) / "result"

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
        self._lock.close()


def _remove_abandoned() -> None:
    """Remove the folders of this user's servers that no longer run."""
    for folder in Path(tempfile.gettempdir()).glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError):
            status = folder.lstat()
            if status.st_uid != os.getuid() or folder.is_symlink() or time.time() - status.st_mtime < _NEW_SECONDS:
                continue
            with (folder / _LOCK).open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)

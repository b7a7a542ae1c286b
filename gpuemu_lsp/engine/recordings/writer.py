"""Writing of recordings: a ZIP file that takes the place of an earlier one at once, or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import tempfile
import zipfile
from pathlib import Path
from types import TracebackType
from typing import Self

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.recordings.model import RecordedAllocation, RecordedLaunch, Recording, RecordingError, Site
from gpuemu_lsp.engine.recordings.reader import DESCRIPTION, FORMAT, VERSION, base_of, contents_digest

_IGNORE = ".gitignore"


class RecordingWriter:
    """A recording while it is made. Contents are compressed as they come; the description is written at the end.

    Use it as a context manager: without :meth:`finish` nothing is left behind.

    Raises
    ------
    RecordingError
        If the file cannot be written.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._root = base_of(path)
        self._stored: set[str] = set()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            folder = path.parent.parent
            if folder.name == ".gpuemu" and not (folder / _IGNORE).exists():
                (folder / _IGNORE).write_text("*\n")
            descriptor, name = tempfile.mkstemp(prefix=f".{path.name}-", dir=path.parent)
        except OSError as error:
            raise RecordingError(f"{error.filename or path}: {error.strerror}") from error
        self._temporary = Path(name)
        self._file = os.fdopen(descriptor, "w+b")
        self._archive = zipfile.ZipFile(self._file, "w", zipfile.ZIP_DEFLATED, compresslevel=1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(OSError, ValueError):
            self._archive.close()
        self._file.close()
        self._temporary.unlink(missing_ok=True)

    @property
    def stored_bytes(self) -> int:
        """Size of the file so far, compressed."""
        return self._file.tell()

    def contents(self, data: bytes) -> str:
        """Store contents if they are new; return their digest."""
        digest = contents_digest(data)
        if digest not in self._stored:
            self._stored.add(digest)
            try:
                self._archive.writestr(digest, data)
            except OSError as error:
                raise RecordingError(f"{self.path}: {error.strerror}") from error
        return digest

    def finish(self, recording: Recording) -> None:
        """Write the description, and put the file in its place."""
        try:
            self._archive.writestr(DESCRIPTION, json.dumps(self._document(recording), separators=(",", ":")))
            self._archive.close()
            self._file.flush()
            self._temporary.replace(self.path)
        except OSError as error:
            raise RecordingError(f"{self.path}: {error.strerror}") from error

    def _document(self, recording: Recording) -> dict[str, Json]:
        return {
            "format": FORMAT,
            "version": VERSION,
            "program": recording.program,
            "created": recording.created,
            "notes": list(recording.notes),
            "kernels": [
                {
                    "symbol": one.symbol,
                    "name": one.name,
                    "source": None if one.source is None else self._relative(one.source),
                    "digest": one.digest,
                    "code": one.code,
                    "parameters": [
                        {"name": each.name, "offset": each.offset, "size": each.size} for each in one.parameters
                    ],
                }
                for one in recording.kernels
            ],
            "groups": [
                {
                    "kernel": one.kernel,
                    "site": self._site(one.site),
                    "grid": list(one.grid),
                    "block": list(one.block),
                    "shared": one.shared_bytes,
                    "count": one.count,
                    "checked": one.checked,
                    "repeated": one.repeated,
                    "findings": one.findings,
                    "seconds": one.seconds,
                }
                for one in recording.groups
            ],
            "launches": [self._launch(one) for one in recording.launches],
        }

    def _launch(self, launch: RecordedLaunch) -> dict[str, Json]:
        return {
            "digest": launch.digest,
            "kernel": launch.kernel,
            "site": self._site(launch.site),
            "grid": list(launch.grid),
            "block": list(launch.block),
            "shared": launch.shared_bytes,
            "parameters": launch.parameters.hex(),
            "pointers": [
                {"offset": one.offset, "allocation": one.allocation, "target": one.target} for one in launch.pointers
            ],
            "allocations": [self._allocation(one) for one in launch.allocations],
            "clean": launch.clean,
            "left_out": launch.left_out,
        }

    def _allocation(self, allocation: RecordedAllocation) -> dict[str, Json]:
        return {
            "address": allocation.address,
            "size": allocation.size,
            "site": self._site(allocation.site),
            "variable": allocation.variable,
            "before": allocation.before,
            "initialised": allocation.initialised,
            "after": allocation.after,
            "addresses": allocation.addresses,
        }

    def _site(self, site: Site | None) -> dict[str, Json] | None:
        return None if site is None else {"path": self._relative(site.path), "line": site.line}

    def _relative(self, path: str) -> str:
        found = Path(path)
        return found.relative_to(self._root).as_posix() if found.is_relative_to(self._root) else path

"""Reading of recordings. A file that is damaged, of another version or not ours is an error with the reason."""

from __future__ import annotations

import hashlib
import json
import zipfile
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.recordings.model import (
    Dim3,
    LaunchGroup,
    RecordedAllocation,
    RecordedKernel,
    RecordedLaunch,
    RecordedParameter,
    RecordedPointer,
    Recording,
    RecordingError,
    Site,
)
from gpuemu_lsp.engine.regular_file import open_regular

FORMAT = "gpuemu recording"
VERSION = 1
DESCRIPTION = "recording.json"
_MAX_DESCRIPTION = 64 << 20
_MAX_CONTENTS = 1 << 30
_MAX_THREADS = 1 << 40
_DIGITS = frozenset("0123456789abcdef")

_Item = TypeVar("_Item")


def contents_digest(data: bytes) -> str:
    """Return the name under which contents are stored."""
    return hashlib.blake2b(data, digest_size=20).hexdigest()


def base_of(path: Path) -> Path:
    """Return the folder to which the paths in a recording are relative: that of the project, else that of the file."""
    folder = path.absolute().parent
    inside = folder.name == "recordings" and folder.parent.name == ".gpuemu"
    return folder.parent.parent if inside else folder


def read_recording(path: str | Path) -> Recording:
    """Return a recording without the contents of its allocations.

    Raises
    ------
    RecordingError
        If the file cannot be read, is damaged, or is of another version.
    """
    path = Path(path)
    try:
        status = path.stat()
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror}") from error
    return _read(str(path), status.st_mtime_ns, status.st_size)


def read_contents(path: str, digest: str) -> bytes:
    """Return stored contents.

    Raises
    ------
    RecordingError
        If they are missing or damaged.
    """
    data = _member(Path(path), digest, _MAX_CONTENTS)
    if contents_digest(data) != digest:
        raise RecordingError(f"{path}: the stored contents {digest} are damaged")
    return data


@lru_cache(maxsize=32)
def _read(name: str, changed: int, size: int) -> Recording:
    del changed, size
    path = Path(name)
    try:
        document = json.loads(_member(path, DESCRIPTION, _MAX_DESCRIPTION))
    except (ValueError, RecursionError) as error:
        raise RecordingError(f"{path} is damaged: its description is not JSON") from error
    reader = _Reader(path)
    fields = reader.object(document, "the description")
    if fields.get("format") != FORMAT:
        raise RecordingError(f"{path} is not a recording of gpuemu")
    if fields.get("version") != VERSION:
        raise RecordingError(
            f"{path} has version {fields.get('version')!r} of the format, and this gpuemu reads {VERSION}: record again"
        )
    return reader.recording(fields)


def _member(path: Path, name: str, limit: int) -> bytes:
    """Return a member of the archive."""
    try:
        with _archive(path) as archive:
            if archive.getinfo(name).file_size > limit:
                raise RecordingError(f"{path} is damaged: {name} is too large")
            with archive.open(name) as stream:
                data = stream.read(limit + 1)
    except KeyError as error:
        raise RecordingError(f"{path} is damaged: it has no {name}") from error
    if len(data) > limit:
        raise RecordingError(f"{path} is damaged: {name} is too large")
    return data


@contextmanager
def _archive(path: Path) -> Iterator[zipfile.ZipFile]:
    try:
        with open_regular(path) as stream, zipfile.ZipFile(stream) as archive:
            yield archive
    except OSError as error:
        raise RecordingError(f"{path}: {error.strerror or error}") from error
    except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, ValueError) as error:
        raise RecordingError(f"{path} is damaged or not a recording: {error}") from error


class _Reader:
    """Validation of the description: every value has its type and range, and every number refers to something."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._root = base_of(path)

    def recording(self, fields: dict[str, Json]) -> Recording:
        kernels = tuple(self.each(fields.get("kernels"), "kernels", self._kernel))
        groups = tuple(self.each(fields.get("groups"), "groups", lambda one: self._group(one, len(kernels))))
        launches = tuple(self.each(fields.get("launches"), "launches", lambda one: self._launch(one, kernels)))
        return Recording(
            path=str(self._path),
            program=self.text(fields.get("program"), "program"),
            created=self.real(fields.get("created"), "created"),
            kernels=kernels,
            groups=groups,
            launches=launches,
            notes=tuple(self.each(fields.get("notes"), "notes", lambda one: self.text(one, "notes"))),
        )

    def object(self, value: Json, what: str) -> dict[str, Json]:
        if not isinstance(value, dict):
            raise self._damaged(what, "an object")
        return value

    def each(self, value: Json, what: str, read: Callable[[Json], _Item]) -> list[_Item]:
        if not isinstance(value, list):
            raise self._damaged(what, "a list")
        return [read(one) for one in value]

    def text(self, value: Json, what: str) -> str:
        if not isinstance(value, str):
            raise self._damaged(what, "a text")
        return value

    def real(self, value: Json, what: str) -> float:
        if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value < 1e15:
            raise self._damaged(what, "a number")
        return float(value)

    def whole(self, value: Json, what: str, least: int = 0, most: int = 1 << 63) -> int:
        if not isinstance(value, int) or isinstance(value, bool) or not least <= value <= most:
            raise self._damaged(what, f"a whole number from {least} to {most}")
        return value

    def flag(self, value: Json, what: str) -> bool:
        if not isinstance(value, bool):
            raise self._damaged(what, "true or false")
        return value

    def _damaged(self, what: str, wanted: str) -> RecordingError:
        return RecordingError(f"{self._path} is damaged: {what} is not {wanted}")

    def _path_of(self, value: Json, what: str) -> str:
        return (self._root / self.text(value, what)).as_posix()

    def _site(self, value: Json) -> Site | None:
        if value is None:
            return None
        fields = self.object(value, "a site")
        return Site(self._path_of(fields.get("path"), "a path"), self.whole(fields.get("line"), "a line", 1, 1 << 31))

    def _dim3(self, value: Json, what: str) -> Dim3:
        found = self.each(value, what, lambda one: self.whole(one, what, 1, (1 << 31) - 1))
        if len(found) != 3 or found[0] * found[1] * found[2] > _MAX_THREADS:
            raise self._damaged(what, "a size of a launch")
        return found[0], found[1], found[2]

    def _digest(self, value: Json, what: str) -> str | None:
        if value is None:
            return None
        text = self.text(value, what)
        if len(text) != 40 or not _DIGITS.issuperset(text):
            raise self._damaged(what, "a digest")
        return text

    def _optional(self, value: Json, what: str) -> str | None:
        return None if value is None else self.text(value, what)

    def _kernel(self, value: Json) -> RecordedKernel:
        fields = self.object(value, "a kernel")
        source = fields.get("source")

        def parameter(one: Json) -> RecordedParameter:
            inner = self.object(one, "a parameter")
            return RecordedParameter(
                self.text(inner.get("name"), "the name of a parameter"),
                self.whole(inner.get("offset"), "an offset", 0, 1 << 16),
                self.whole(inner.get("size"), "the size of a parameter", 0, 1 << 16),
            )

        return RecordedKernel(
            symbol=self.text(fields.get("symbol"), "the symbol of a kernel"),
            name=self.text(fields.get("name"), "the name of a kernel"),
            source=None if source is None else self._path_of(source, "the source of a kernel"),
            digest=self.text(fields.get("digest"), "the digest of a source"),
            parameters=tuple(self.each(fields.get("parameters"), "the parameters of a kernel", parameter)),
            code=self._digest(fields.get("code"), "the code of a kernel"),
        )

    def _group(self, value: Json, kernels: int) -> LaunchGroup:
        fields = self.object(value, "a group")
        return LaunchGroup(
            kernel=self.whole(fields.get("kernel"), "the kernel of a group", 0, kernels - 1),
            site=self._site(fields.get("site")),
            grid=self._dim3(fields.get("grid"), "grid"),
            block=self._dim3(fields.get("block"), "block"),
            shared_bytes=self.whole(fields.get("shared"), "shared", 0, 1 << 24),
            count=self.whole(fields.get("count"), "count"),
            checked=self.whole(fields.get("checked"), "checked"),
            repeated=self.whole(fields.get("repeated"), "repeated"),
            findings=self.whole(fields.get("findings"), "findings"),
            seconds=self.real(fields.get("seconds"), "seconds"),
        )

    def _launch(self, value: Json, kernels: tuple[RecordedKernel, ...]) -> RecordedLaunch:
        fields = self.object(value, "a launch")
        kernel = self.whole(fields.get("kernel"), "the kernel of a launch", 0, len(kernels) - 1)
        try:
            parameters = bytes.fromhex(self.text(fields.get("parameters"), "parameters"))
        except ValueError as error:
            raise self._damaged("parameters", "hexadecimal") from error
        if any(one.offset + one.size > len(parameters) for one in kernels[kernel].parameters):
            raise self._damaged("parameters", "as long as those of the kernel")
        allocations = tuple(self.each(fields.get("allocations"), "allocations", self._allocation))

        def pointer(one: Json) -> RecordedPointer:
            inner = self.object(one, "a pointer")
            number = self.whole(inner.get("allocation"), "the allocation of a pointer", 0, len(allocations) - 1)
            return RecordedPointer(
                self.whole(inner.get("offset"), "the offset of a pointer", 0, max(len(parameters) - 8, 0)),
                number,
                self.whole(inner.get("target"), "the target of a pointer", 0, allocations[number].size),
            )

        digest = self._digest(fields.get("digest"), "the digest of a launch")
        if digest is None:
            raise self._damaged("the digest of a launch", "a digest")
        return RecordedLaunch(
            digest=digest,
            kernel=kernel,
            site=self._site(fields.get("site")),
            grid=self._dim3(fields.get("grid"), "grid"),
            block=self._dim3(fields.get("block"), "block"),
            shared_bytes=self.whole(fields.get("shared"), "shared", 0, 1 << 24),
            parameters=parameters,
            pointers=tuple(self.each(fields.get("pointers"), "pointers", pointer)),
            allocations=allocations,
            clean=self.flag(fields.get("clean"), "clean"),
            left_out=self._optional(fields.get("left_out"), "left_out"),
        )

    def _allocation(self, value: Json) -> RecordedAllocation:
        fields = self.object(value, "an allocation")
        return RecordedAllocation(
            address=self.whole(fields.get("address"), "an address"),
            size=self.whole(fields.get("size"), "the size of an allocation", 1, 1 << 40),
            site=self._site(fields.get("site")),
            variable=self._optional(fields.get("variable"), "the variable of an allocation"),
            before=self._digest(fields.get("before"), "before"),
            initialised=self._digest(fields.get("initialised"), "initialised"),
            after=self._digest(fields.get("after"), "after"),
            addresses=self.flag(fields.get("addresses"), "addresses"),
        )

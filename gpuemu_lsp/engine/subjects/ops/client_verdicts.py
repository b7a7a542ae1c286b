"""Results that a client of ``gpuemu.Client`` has sent for an op that cannot be run here.

A program runs such an op itself. Its results count while the entry, the reference, the file of the program's function
and the version of the library are those that they were obtained with. They are a JSON file in the project's
``.gpuemu/``, which a front end reads without NumPy.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuemu_lsp.engine.findings import Finding
from gpuemu_lsp.engine.project.load import op_not_executed
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.regular_file import file_bytes
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.ops.preparation import library_of
from gpuemu_lsp.engine.workers.wire import WireError, from_json, to_json

_FOLDER = "client"


@dataclass(frozen=True, slots=True)
class ClientDtype:
    """Cases of one dtype, and their errors as in :class:`~gpuemu_lsp.engine.check.model.DtypeMeasurements`."""

    dtype: str
    run: int
    passed: int
    max_diff: float = 0.0
    errors: tuple[float, ...] = ()


@dataclass(frozen=True, slots=True)
class ClientFailure:
    """The first case that failed."""

    rule: str
    message: str
    dtype: str
    case: str


@dataclass(frozen=True, slots=True)
class ClientVerdict:
    """The results of one op.

    ``files`` has the digests of files by absolute path, ``entry`` that of the entry in gpuemu.toml, ``library`` and
    ``version`` the package that the op is of, "" if it is not installed. ``seed`` identifies the cases. ``sent`` is in
    seconds since the epoch.
    """

    op: str
    seed: str
    sent: float
    files: Mapping[str, str] = field(default_factory=dict)
    entry: str = ""
    library: str = ""
    version: str = ""
    dtypes: tuple[ClientDtype, ...] = ()
    failure: ClientFailure | None = None

    @property
    def cases(self) -> int:
        """Number of cases that ran."""
        return sum(one.run for one in self.dtypes)


def send(
    spec: KernelSpec,
    seed: str,
    dtypes: Sequence[ClientDtype],
    failure: ClientFailure | None,
    program: str | None,
    library: tuple[str, str] | None,
) -> None:
    """Store the results of an op, in place of earlier ones.

    ``program`` is the file of the function that was called, ``library`` the package that the op is of, as
    :func:`~gpuemu_lsp.engine.subjects.ops.preparation.library_of` returns it.

    Raises
    ------
    OSError
        If they cannot be written.
    """
    files = {path: _digest(path) for path in (spec.reference, program) if path is not None}
    name, version = library or ("", "")
    verdict = ClientVerdict(spec.name, seed, time.time(), files, _entry(spec), name, version, tuple(dtypes), failure)
    path = _path(spec)
    path.parent.mkdir(parents=True, exist_ok=True)
    with (
        contextlib.suppress(FileExistsError),
        (path.parent.parent / ".gitignore").open("x", encoding="ascii") as ignore,
    ):
        ignore.write("*\n")
    # Replaced as a whole: a check may read it at this moment.
    handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".new")
    with os.fdopen(handle, "w", encoding="utf-8") as stream:
        json.dump(to_json(verdict), stream)
    Path(temporary).replace(path)


def received(spec: KernelSpec) -> ClientVerdict | str | None:
    """Return the results of an op that cannot be run here.

    The text is the reason why results do not count; None means that there are none, or that the op can be run.
    """
    if spec.op is None or spec.op.runnable:
        return None
    try:
        verdict = from_json(ClientVerdict, json.loads(_path(spec).read_text(encoding="utf-8")))
    except (OSError, ValueError, WireError):
        return None
    if not verdict.cases:
        return None
    return _stale(verdict, spec) or verdict


def unverified_op(spec: KernelSpec) -> Finding | None:
    """Return the finding of an op that cannot be run here and has no results of a client that count."""
    finding = op_not_executed(spec)
    if finding is None:
        return None
    found = received(spec)
    if isinstance(found, str):
        message = f"'{spec.name}' was not run: {found}. Run the client again."
        return make("engine/not-executed", message, finding.place, kernel=spec.name)
    return None if found is not None else finding


def age_text(seconds: float) -> str:
    """Return an age in words, of the unit that suits it."""
    for size, unit in ((86400.0, "day"), (3600.0, "hour"), (60.0, "minute")):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}{'s' if number > 1 else ''} ago"
    return "less than a minute ago"


def _stale(verdict: ClientVerdict, spec: KernelSpec) -> str | None:
    """Return what has changed since the results were sent."""
    assert spec.op is not None
    since = f"since a client sent its result {age_text(time.time() - verdict.sent)}"
    if verdict.entry != _entry(spec):
        return f"its entry has changed {since}"
    if spec.reference is not None and spec.reference not in verdict.files:
        return f"its reference has changed {since}"
    for path, digest in verdict.files.items():
        if _digest(path) != digest:
            return f"{Path(path).name} has changed {since}"
    name, version = library_of(spec.op) or ("", "")
    if verdict.version and version and version != verdict.version:
        return f"{name} is {version} now, and was {verdict.version} when a client sent its result"
    return None


def _path(spec: KernelSpec) -> Path:
    assert spec.op is not None
    # A name may have any character, such as those of a path.
    name = hashlib.blake2b(spec.name.encode(), digest_size=8).hexdigest()
    return Path(spec.op.folder, ".gpuemu", _FOLDER, f"{name}.json")


def _entry(spec: KernelSpec) -> str:
    """Return a digest of what the entry says; not of the places where it says so."""
    text = json.dumps(to_json(replace(spec, places={}, inherited=frozenset())), sort_keys=True)
    return hashlib.blake2b(text.encode(), digest_size=8).hexdigest()


def _digest(path: str) -> str:
    with contextlib.suppress(OSError):
        return hashlib.blake2b(file_bytes(path), digest_size=8).hexdigest()
    return ""

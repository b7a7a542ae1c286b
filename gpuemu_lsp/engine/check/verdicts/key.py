"""Keys of verdicts: digests of everything that determines the outcome of a check's launches."""

from __future__ import annotations

import hashlib
import json
import sys
from dataclasses import replace
from functools import cache
from importlib import metadata
from pathlib import Path

from gpuemu_lsp.engine.findings import Json
from gpuemu_lsp.engine.plan.model import Plan
from gpuemu_lsp.engine.ptx.slicing import code_identity
from gpuemu_lsp.engine.store import Store, StoreError
from gpuemu_lsp.engine.subjects.language import PreparedKernel
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.wire import to_json

KEY_VERSION = 1
_ENGINE = Path(__file__).parents[2]
_ALL_CASES = 1 << 20
_COMPILE_KEYS = ("artifact_checks", "compile_options", "include_dirs", "arch", "source")
"""Keys of gpuemu.toml whose effect is in the PTX, or that no launch depends on."""


def _engine_files() -> list[tuple[str, int, int]]:
    """Return the files of the engine with modification times and sizes."""
    found = ((path, path.stat()) for path in sorted(_ENGINE.rglob("*.py")))
    return [(path.relative_to(_ENGINE).as_posix(), status.st_mtime_ns, status.st_size) for path, status in found]


_FILES_AT_IMPORT = _engine_files()
# When the package is upgraded under a running server, results of the old modules must not be stored under the key of
# the new ones. Reading the files takes ten times longer, and the command line stores no verdict.


@cache
def engine_digest() -> str | None:
    """Return a digest of the engine's files; None if they have changed since this module was imported."""
    digest = hashlib.blake2b(digest_size=20)
    for name, _, _ in _FILES_AT_IMPORT:
        try:
            digest.update(name.encode() + b"\0" + (_ENGINE / name).read_bytes() + b"\0")
        except OSError:
            return None
    return digest.hexdigest() if _engine_files() == _FILES_AT_IMPORT else None


def verdict_key(request: CheckRequest, prepared: PreparedKernel) -> str | None:
    """Return the key of a kernel's verdict as its stored cases are now.

    None if the store cannot be read, or the product has been upgraded since this process started.
    """
    artifact, source, spec = prepared.artifact, prepared.source, request.spec
    assert artifact is not None and source is not None
    engine = engine_digest()
    if engine is None:
        return None
    try:
        cases = [_stored_cases(request, plan) for plan in prepared.plans]
    except StoreError:
        return None
    parts: list[Json] = [
        KEY_VERSION,
        engine,
        [sys.version, *installed()],
        code_identity(artifact.ptx, sorted(artifact.entries[plan.entry] for plan in prepared.plans)),
        [artifact.arch, dict(artifact.entries)],
        [plain(_without_notes(plan)) for plan in prepared.plans],
        # Sizes next to the constants of a file are worth a case, and arrays may have these lengths.
        dict(source.constants),
        [spec.name, spec.reference, spec.reference_function, plain(spec.tolerances), plain(spec.invariants)],
        [*sorted(key for key in spec.places if not key.startswith(_COMPILE_KEYS))],
        plain(request.validation),
        [request.registered, request.root, plain(replace(request.options, store_root=None, verdicts="run"))],
        cases,
        scripts(spec.reference),
    ]
    return hashlib.blake2b(
        json.dumps(parts, sort_keys=True).encode("utf-8", "surrogatepass"), digest_size=20
    ).hexdigest()


def _without_notes(plan: Plan) -> Plan:
    """Return a plan without its notes, which name lines of the text."""
    other = plan.alternative
    return replace(plan, notes=(), alternative=None if other is None else _without_notes(other))


@cache
def installed() -> tuple[str, ...]:
    """Return the installed packages with their versions: a reference may use any of them."""
    return tuple(sorted(f"{one.name} {one.version}" for one in metadata.distributions()))


def _stored_cases(request: CheckRequest, plan: Plan) -> Json:
    """Return the cases that a check replays. When a case failed last, and on which line, does not matter."""
    if request.options.store_root is None:
        return []
    with Store(request.options.store_root) as store:
        stored = store.failures_for(plan.kernel, plan.dtype, limit=_ALL_CASES)
    return [
        [item.case, item.fixed, item.failure.rule, item.failure.optimized, item.failure.source_hash] for item in stored
    ]


def scripts(reference: str | None) -> list[Json]:
    """Return the names of the reference's neighbours: it may import one that did not exist."""
    return [] if reference is None else [*sorted(path.name for path in Path(reference).parent.glob("*.py"))]


def plain(value: object) -> Json:
    """Return a record as JSON without the places in it."""
    return _without_places(to_json(value))


def _without_places(data: Json) -> Json:
    if isinstance(data, dict):
        if data.get("$type") == "Place":
            return None
        return {key: _without_places(value) for key, value in data.items()}
    return [_without_places(value) for value in data] if isinstance(data, list) else data

"""What a file's check consists of, when it would say the same as the last one, and what it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.check.model import CheckOptions, CheckRequest
from gpuemu_lsp.engine.project.model import KernelSpec
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.documents.parsed_files import Reading
from gpuemu_lsp.server.workspace.settings import Settings


@dataclass(frozen=True, slots=True)
class Order:
    """How a file is to be checked. ``force``: also where nothing has changed; ``kernels`` None: all of them."""

    force: bool = False
    deep: bool = False
    kernels: frozenset[str] | None = None

    def joined(self, other: Order | None) -> Order:
        """Return an order that does what either of two asks for."""
        if other is None:
            return self
        both = self.kernels is not None and other.kernels is not None
        kernels = (self.kernels or frozenset()) | (other.kernels or frozenset()) if both else None
        return Order(self.force or other.force, self.deep or other.deep, kernels)


def requests_for(
    reading: Reading,
    settings: Settings,
    execute: bool = True,
    deep: bool = False,
    unsaved: Mapping[str, str] | None = None,
) -> tuple[CheckRequest, ...]:
    """Return one request per kernel of a file, as ``--check`` would, but for the editor's texts.

    ``unsaved`` has the texts of open documents that are not on disk; those the file includes count.
    """
    project = reading.project
    if project is None:
        return ()
    execute = execute and settings.trusted
    executor = project.executor if settings.executor == "auto" else settings.executor
    options = CheckOptions(
        cases=settings.deep_cases if deep else settings.cases,
        executor=executor,
        execute=execute,
        store_root=project.root if execute and project.config is not None else None,
        coverage=deep,
        unoptimized=deep,
        counters=settings.counters,
    )
    overlay = {path: text for path, text in (unsaved or {}).items() if path in reading.headers}
    return tuple(
        CheckRequest(
            entry.spec,
            options,
            project.validation,
            entry.registered,
            text=reading.text,
            root=project.root,
            overlay=overlay,
        )
        for entry in reading.entries
    )


def kernel_id(spec: KernelSpec) -> str:
    """Return what tells the kernels of a file apart: two namespaces may have functions of one name."""
    return spec.name if spec.entry is None else f"{spec.name} = {spec.entry}"


def content(reading: Reading, requests: Sequence[CheckRequest]) -> str:
    """Return a digest of everything the check of a file reads; the same digest would give the same verdict.

    A reference may import its neighbours, so every script of its folder counts, by time and size. Looks at the disk.
    """
    digest = hashlib.blake2b(digest_size=16)
    for request in requests:
        stripped = replace(request, spec=replace(request.spec, places={}))
        digest.update(json.dumps(to_json(stripped), sort_keys=True).encode("utf-8", "surrogatepass"))
    for path in reading.headers:
        digest.update(_stamp(Path(path)))
    references = {request.spec.reference for request in requests if request.spec.reference is not None}
    for folder in sorted({Path(reference).parent for reference in references}):
        for script in sorted(folder.glob("*.py")):
            digest.update(_stamp(script))
    return digest.hexdigest()


def depends_on(reading: Reading, path: str) -> bool:
    """Say whether a file's verdicts may change when another does: its header, a reference or a script beside one."""
    if path.endswith(".py"):
        folder = Path(path).parent
        references = (entry.spec.reference for entry in reading.entries)
        return any(reference is not None and Path(reference).parent == folder for reference in references)
    return reading.includes(path)


def _stamp(path: Path) -> bytes:
    try:
        status = path.stat()
    except OSError:
        return b"gone"
    return f"{path}:{status.st_mtime_ns}:{status.st_size};".encode("utf-8", "surrogateescape")

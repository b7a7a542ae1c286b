"""What a file's check consists of, when it would say the same as the last one, and what it depends on."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.campaign.targets import SUFFIXES, kernels_in
from gpuemu_lsp.engine.check.model import DEFAULT_CASES, CheckOptions, CheckRequest
from gpuemu_lsp.engine.project.model import KernelSpec, Project
from gpuemu_lsp.engine.source import include_closure
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.settings import Settings


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
    project: Project,
    path: str,
    text: str,
    settings: Settings,
    execute: bool = True,
    deep: bool = False,
    unsaved: Mapping[str, str] | None = None,
) -> tuple[CheckRequest, ...]:
    """Return one request per kernel of a file, as ``--check`` would, but for the editor's texts.

    ``unsaved`` has the texts of open documents that are not on disk; those the file includes count.
    """
    if Path(path).suffix not in SUFFIXES and not is_source(project, path):
        return ()
    execute = execute and settings.trusted
    executor = project.executor if settings.executor == "auto" else settings.executor
    options = CheckOptions(
        cases=settings.deep_cases if deep else settings.cases or DEFAULT_CASES,
        executor=executor,
        execute=execute,
        store_root=project.root if execute and project.config is not None else None,
    )
    return tuple(
        CheckRequest(
            spec,
            options,
            project.validation,
            registered,
            text=text,
            root=project.root,
            overlay=_included(spec, unsaved) if unsaved else {},
        )
        for spec, registered in kernels_in(project, path, text)
    )


def _included(spec: KernelSpec, unsaved: Mapping[str, str]) -> dict[str, str]:
    used = include_closure(spec.source, spec.include_dirs)
    return {path: text for path, text in unsaved.items() if path in used}


def is_source(project: Project, path: str) -> bool:
    """Say whether gpuemu.toml names the file as the source of a kernel."""
    return any(spec.source == path for spec in project.kernels)


def kernel_id(spec: KernelSpec) -> str:
    """Return what tells the kernels of a file apart: two namespaces may have functions of one name."""
    return spec.name if spec.entry is None else f"{spec.name} = {spec.entry}"


def content(requests: Sequence[CheckRequest]) -> str:
    """Return a digest of everything the check of a file reads; the same digest would give the same verdict.

    A reference may import its neighbours, so every script of its folder counts, by time and size.
    """
    digest = hashlib.blake2b(digest_size=16)
    for request in requests:
        stripped = replace(request, spec=replace(request.spec, places={}))
        digest.update(json.dumps(to_json(stripped), sort_keys=True).encode("utf-8", "surrogatepass"))
        for path in include_closure(request.spec.source, request.spec.include_dirs):
            digest.update(_stamp(Path(path)))
        if request.spec.reference is not None:
            for script in sorted(Path(request.spec.reference).parent.glob("*.py")):
                digest.update(_stamp(script))
    return digest.hexdigest()


def depends_on(spec: KernelSpec, path: str) -> bool:
    """Say whether a kernel's verdict may change when a file does: its header, its reference or a script beside it."""
    if path.endswith(".py"):
        return spec.reference is not None and Path(spec.reference).parent == Path(path).parent
    return path in include_closure(spec.source, spec.include_dirs)


def _stamp(path: Path) -> bytes:
    try:
        status = path.stat()
    except OSError:
        return b"gone"
    return f"{path}:{status.st_mtime_ns}:{status.st_size};".encode("utf-8", "surrogateescape")

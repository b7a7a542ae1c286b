"""Check requests of a file, and the digest that decides whether it must be checked again."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from gpuemu_lsp.engine.recordings.project_files import store_folder
from gpuemu_lsp.engine.source.headers.kernel_files import HEADERS
from gpuemu_lsp.engine.subjects.request import CheckOptions, CheckRequest
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.documents.document import Document
from gpuemu_lsp.server.documents.parsed_files import ParsedFile, kernel_id
from gpuemu_lsp.server.session import Session


@dataclass(frozen=True, slots=True)
class CheckRunOptions:
    """Options of one check of a file.

    ``force`` checks it although its content has not changed; ``kernels`` are identities of kernels, None is all.
    """

    force: bool = False
    deep: bool = False
    kernels: frozenset[str] | None = None

    def merge(self, other: CheckRunOptions | None) -> CheckRunOptions:
        """Return options that cover both requests."""
        if other is None:
            return self
        both = self.kernels is not None and other.kernels is not None
        kernels = (self.kernels or frozenset()) | (other.kernels or frozenset()) if both else None
        return CheckRunOptions(self.force or other.force, self.deep or other.deep, kernels)


async def requests_of_file(session: Session, path: str) -> tuple[CheckRequest, ...]:
    """Return a request for every kernel of a file in its current text."""
    parsed = await session.parse(path)
    return () if parsed is None else requests_of(session, parsed)


async def requests_named(session: Session, path: str, kernel: str | None) -> tuple[CheckRequest, ...]:
    """Return the requests of the kernels of a file that a client calls ``kernel``; of all kernels if that is None."""
    parsed = await session.parse(path)
    if parsed is None:
        return ()
    requests = requests_of(session, parsed)
    ids = parsed.ids_of(kernel) if kernel is not None else frozenset()
    return tuple(request for request in requests if kernel is None or kernel_id(request.spec) in ids)


def requests_of(
    session: Session, parsed: ParsedFile, execute: bool = True, deep: bool = False
) -> tuple[CheckRequest, ...]:
    """Return a request for every kernel of a parsed file, the same as of ``--check`` but for unsaved texts.

    The text of the file itself, and of open headers that it includes, comes from the editor.
    """
    project, settings = parsed.project, session.settings
    if project is None:
        return ()
    # Compiling a Triton kernel executes its module, which half an edit may have made something else: on save only.
    entries = [entry for entry in parsed.entries if execute or not entry.runs_python]
    execute = execute and settings.trusted
    options = CheckOptions(
        cases=settings.deep_cases if deep else settings.cases,
        executor=project.executor if settings.executor == "auto" else settings.executor,
        execute=execute,
        store_root=store_folder(project.root, project.config) if execute and session.has_file(parsed.path) else None,
        coverage=deep,
        unoptimized=deep,
        counters=settings.counters,
    )
    overlay = _unsaved_headers(session, parsed)
    return tuple(
        CheckRequest(
            entry.spec,
            options,
            project.validation,
            entry.registered,
            text=parsed.text,
            root=project.root,
            overlay=overlay,
        )
        for entry in entries
    )


def in_order_of_interest(
    parsed: ParsedFile, document: Document | None, requests: Sequence[CheckRequest]
) -> tuple[CheckRequest, ...]:
    """Return the requests with the kernel first at which the user is, by the last edit or cursor, then its neighbours.

    A request comes after others of equal distance as before.
    """
    focus = document.focus if document is not None else None
    if focus is None:
        return tuple(requests)

    def distance(request: CheckRequest) -> int:
        decl = parsed.decl_of(request.spec)
        if decl is None:
            return len(parsed.text)
        lines = decl.name_range.start.line - focus
        # The body follows the name: the kernel above the cursor is nearer than the one below it.
        return 2 * lines + 1 if lines > 0 else -lines

    return tuple(sorted(requests, key=distance))


def content_digest(parsed: ParsedFile, requests: Sequence[CheckRequest]) -> str:
    """Return a digest of everything the check of a file reads: an equal digest means equal findings.

    A reference, or a ``.py`` with kernels, may import its neighbours: every Python file of its folder counts, by
    modification time and size.
    Accesses the disk.
    """
    digest = hashlib.blake2b(digest_size=16)

    def add(value: object) -> None:
        digest.update(json.dumps(to_json(value), sort_keys=True).encode("utf-8", "surrogatepass"))

    texts: tuple[str | None, Mapping[str, str]] | None = None
    for request in requests:
        # All kernels of a file have its text and overlay, which may be a megabyte.
        if texts != (request.text, request.overlay):
            texts = request.text, request.overlay
            add(texts)
        add(replace(request, spec=replace(request.spec, places={}), text=None, overlay={}))
    for path in parsed.headers:
        digest.update(_stamp(Path(path)))
    for folder in sorted(parsed.python_folders):
        for script in sorted(folder.glob("*.py")):
            digest.update(_stamp(script))
    return digest.hexdigest()


def _unsaved_headers(session: Session, parsed: ParsedFile) -> dict[str, str]:
    """Return the texts of open headers of a file that differ from those on disk."""
    return {
        path: document.text
        for path, document in session.documents.items()
        if path != parsed.path
        and path.endswith(HEADERS)
        and document.edited_since(document.saved)
        and path in parsed.headers
    }


def _stamp(path: Path) -> bytes:
    try:
        status = path.stat()
    except OSError:
        return b"gone"
    return f"{path}:{status.st_mtime_ns}:{status.st_size};".encode("utf-8", "surrogateescape")

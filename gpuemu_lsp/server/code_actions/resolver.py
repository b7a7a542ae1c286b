"""Resolution of code actions: workspace edits for the current versions of the documents."""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.engine.check.clean_sizes import CleanSizes
from gpuemu_lsp.engine.findings import Json, Position, Range
from gpuemu_lsp.engine.jobs.requests.new_entry import reference_path, relative_path, with_free_name
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.project.edits import TextChange, append
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.subjects.request import CheckRequest
from gpuemu_lsp.engine.workers.model import Job
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.checks.requests import requests_named
from gpuemu_lsp.server.client.params import plain
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.code_actions import fix_all, fixes
from gpuemu_lsp.server.code_actions.code_lines import code_line
from gpuemu_lsp.server.documents.locations import byte_position, client_range, path_from_uri
from gpuemu_lsp.server.session import Session

_log = logging.getLogger(__name__)
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DeferredEdit:
    """An edit to be computed by codeAction/resolve. The client keeps it as ``CodeAction.data``.

    ``what`` is ``ignore``, ``tolerance``, ``limit`` or ``register``.
    """

    what: str
    uri: str
    kernel: str
    rule: str
    dtype: str | None = None
    value: float | int | None = None
    line: int = 0
    column: int = 0
    """In the client's code units, as ``line``."""
    size: str | None = None
    """A size whose multiples of ``value`` are registered."""

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


class CodeActionResolver:
    """Computes the edits of code actions."""

    def __init__(self, server: GpuemuServer, session: Session) -> None:
        self._server = server
        self._session = session

    async def can_register(self, path: str, kernel: str) -> bool:
        """Return whether a kernel is unregistered."""
        request = await self._request(path, kernel)
        own = request is not None and not request.registered and request.spec.source == path
        return own and self._session.has_file(path)

    async def tolerance(self, path: str, kernel: str, dtype: Any) -> float | None:
        """Return the tolerance that would cover the errors found in a registered kernel."""
        edits = [
            dict(finding.data)
            for finding in self._session.diagnostics.findings_of(path)
            if finding.kernel == kernel and finding.dtype == dtype and finding.rule == "numeric/tolerance-exceeded"
        ]
        request = await self._request(path, kernel)
        if request is None or not request.registered:
            return None
        return fixes.measured_tolerance(fixes.errors_of(edits))

    async def resolve(self, action: types.CodeAction) -> None:
        """Set the edit of an action; an action whose edit is no longer possible stays without."""
        given = plain(action.data)
        if action.edit is not None or not isinstance(given, dict):
            return
        try:
            deferred = DeferredEdit(**given)
        except TypeError:
            return
        path = path_from_uri(deferred.uri)
        if path is None:
            return
        changes: list[FileChange] = []
        if deferred.what == "ignore":
            text = self._session.text(path)
            at = Position(deferred.line, deferred.column)
            line = code_line(path, text, self._bytes(text, at)) if text is not None else None
            change = fixes.ignore(line, deferred.rule) if line is not None else None
            changes = [FileChange(path, change)] if change is not None else []
        elif deferred.what in ("tolerance", "limit"):
            changes = self._config_changes(path, deferred)
        elif deferred.what == "register":
            multiples = {deferred.size: int(deferred.value or 1)} if deferred.size is not None else {}
            registration = await self.registration(path, deferred.kernel, multiples)
            changes = [] if isinstance(registration, str) else list(registration)
        if changes:
            action.edit = self.workspace_edit(changes)

    def replacement(self, path: str, span: types.Range, name: str) -> types.WorkspaceEdit | None:
        """Return the edit that replaces a name, quoted or not, by another one; None where the range has no name."""
        text = self._session.text(path)
        lines = text.split("\n") if text is not None else []
        if span.start.line != span.end.line or span.start.line >= len(lines):
            return None
        encoding = self._session.publisher.encoding
        start, end = (byte_position(lines, Position(at.line, at.character), encoding) for at in (span.start, span.end))
        old = lines[start.line].encode("utf-8", "replace")[start.column : end.column].decode("utf-8", "replace")
        quote = old[:1] if old[:1] in ("'", '"') else ""
        if not re.fullmatch(r"[\w./-]+", old.strip("'\"")):
            return None
        return self.workspace_edit([FileChange(path, TextChange(Range(start, end), f"{quote}{name}{quote}"))])

    def certain_fixes(self, path: str) -> types.WorkspaceEdit | None:
        """Return the edit that fixes what is certain in a file; None if there is nothing, or the text has changed."""
        text = self._session.text(path)
        if text is None:
            return None
        edits = [
            finding
            for source, result, finding in self._session.diagnostics.in_file(path)
            if source.layer == "config" or result.text == text
        ]
        changes = [FileChange(path, change) for change in fix_all.certain_changes(text, edits)]
        return self.workspace_edit(changes) if changes else None

    def unused(self, path: str, span: types.Range) -> types.WorkspaceEdit | None:
        """Return the edit that removes the rule at a range from its suppression comment."""
        text = self._session.text(path) or ""
        lines, encoding = text.split("\n"), self._session.publisher.encoding
        start, end = (byte_position(lines, Position(at.line, at.character), encoding) for at in (span.start, span.end))
        rule = fix_all.text_at(text, Range(start, end))
        change = fix_all.without_suppressions(code_line(path, text, start), (rule,))
        return self.workspace_edit([FileChange(path, change)]) if change is not None else None

    def _bytes(self, text: str, at: Position) -> Position:
        return byte_position(text.split("\n"), at, self._session.publisher.encoding)

    def _config_changes(self, path: str, deferred: DeferredEdit) -> list[FileChange]:
        project = self._session.projects.of(path)
        text = self._session.text(project.config) if project is not None and project.config is not None else None
        if project is None or project.config is None or text is None or deferred.value is None:
            return []
        if deferred.what == "tolerance":
            change = fixes.tolerance_edit(text, deferred.kernel, deferred.dtype or "float32", float(deferred.value))
        else:
            change = fixes.limit_edit(text, deferred.kernel, deferred.rule, int(deferred.value))
        return [FileChange(project.config, change)] if change is not None else []

    def clean_at(self, path: str, kernel: str) -> CleanSizes | None:
        """Return at which sizes a kernel is clean, if it has findings at others, which it may not be for."""
        result = self._session.results.named(path, kernel)
        return result.report.clean_at if result is not None else None

    async def registration(
        self, path: str, kernel: str, multiples: Mapping[str, int] = MappingProxyType({})
    ) -> tuple[FileChange, FileChange] | str:
        """Return the changes of reference and gpuemu.toml that register a kernel, or the reason why there are none.

        Of the sizes in ``multiples`` only multiples of these numbers are.
        """
        request = await self._request(path, kernel)
        if request is None or request.registered:
            return f"{kernel} is registered already." if request is not None else f"This file has no kernel {kernel}."
        project = self._session.projects.of(path)
        request = with_free_name(request, {spec.name for spec in project.kernels} if project is not None else set())
        config = discover(Path(path).parent)
        target = Path(config) if config is not None else Path(self._folder_of(path)) / CONFIG_NAME
        reference = reference_path(path, request.spec.name)
        payload: dict[str, Json] = {
            "request": to_json(request),
            "source": relative_path(path, target.parent),
            "reference": relative_path(reference, target.parent),
            "multiples": {**multiples},
        }
        result = await self._session.jobs.run(Job("registration", payload, wall_seconds=_SECONDS))
        registration = next(iter(result.values), {})
        entry, skeleton = registration.get("entry"), registration.get("reference")
        if not isinstance(entry, str) or not isinstance(skeleton, str):
            _log.warning("%s cannot be registered: %s", kernel, registration.get("trouble", result.ending))
            return f"{kernel} cannot be registered: {registration.get('trouble', 'its probe did not end')}."
        text = self._session.text(target.as_posix())
        registered = FileChange(target.as_posix(), append(text or "", entry), create=text is None)
        return FileChange(reference, append("", skeleton), create=True), registered

    def _folder_of(self, path: str) -> str:
        """Return the innermost workspace folder of a file, else the folder it lies in."""
        containing = [folder for folder in self._session.folders if Path(path).is_relative_to(folder)]
        return max(containing, key=len, default=str(Path(path).parent))

    async def _request(self, path: str, kernel: str) -> CheckRequest | None:
        return next(iter(await requests_named(self._session, path, kernel)), None)

    @property
    def can_create(self) -> bool:
        """Whether an edit of the client can create the files that a registration needs."""
        capabilities = self._server.client_capabilities
        operations = get_capability(capabilities, "workspace.workspace_edit.resource_operations", None)
        changes = get_capability(capabilities, "workspace.workspace_edit.document_changes", False)
        return bool(changes) and types.ResourceOperationKind.Create in (operations or ())

    def workspace_edit(self, changes: list[FileChange]) -> types.WorkspaceEdit:
        """Return changes as an edit of the client's documents, with their versions where it supports that."""
        if not get_capability(self._server.client_capabilities, "workspace.workspace_edit.document_changes", False):
            unversioned: dict[str, list[types.TextEdit]] = {}
            for change in changes:
                unversioned.setdefault(self._session.uri_of(change.path), []).append(self._text_edit(change))
            return types.WorkspaceEdit(changes=unversioned)
        steps: list[Any] = []
        edits: dict[str, list[types.TextEdit]] = {}
        for change in changes:
            uri = self._session.uri_of(change.path)
            document = self._session.documents.get(change.path)
            if change.path in edits:  # one step for each document: later steps would see moved positions
                edits[change.path].append(self._text_edit(change))
                continue
            if change.create:
                steps.append(types.CreateFile(uri=uri, options=types.CreateFileOptions(ignore_if_exists=True)))
            version = document.version if document is not None else None
            identifier = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
            edits[change.path] = [self._text_edit(change)]
            steps.append(types.TextDocumentEdit(text_document=identifier, edits=edits[change.path]))
        return types.WorkspaceEdit(document_changes=steps)

    def _text_edit(self, change: FileChange) -> types.TextEdit:
        lines = (self._session.text(change.path) or "").split("\n")
        span = client_range(lines, change.change.range, self._session.publisher.encoding)
        return types.TextEdit(range=span, new_text=change.change.text)


@dataclass(frozen=True, slots=True)
class FileChange:
    """A change of a file, which is created first if it does not exist."""

    path: str
    change: TextChange
    create: bool = False

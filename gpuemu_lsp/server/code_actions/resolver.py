"""The edits behind code actions, with the versions of the documents they are for."""

from __future__ import annotations

import logging
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from lsprotocol import types
from pygls.capabilities import get_capability

from gpuemu_lsp.engine.check.model import CheckRequest
from gpuemu_lsp.engine.project import discover
from gpuemu_lsp.engine.project.edits import TextChange, append
from gpuemu_lsp.engine.project.load import CONFIG_NAME
from gpuemu_lsp.engine.workers import Job
from gpuemu_lsp.engine.workers.wire import to_json
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.code_actions import fixes
from gpuemu_lsp.server.diagnostics.publisher import client_range
from gpuemu_lsp.server.documents.uris import path_of
from gpuemu_lsp.server.session import Session
from gpuemu_lsp.server.workspace.settings import plain

_log = logging.getLogger(__name__)
_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Chosen:
    """An action that still has to be worked out, as it travels through the client."""

    what: str
    uri: str
    kernel: str
    rule: str
    dtype: str | None = None
    value: float | int | None = None
    line: int = 0

    def to_json(self) -> dict[str, Any]:
        """Return it as JSON."""
        return asdict(self)


class Actions:
    """Works out edits."""

    def __init__(self, server: Server, session: Session) -> None:
        self._server = server
        self._session = session

    async def unregistered(self, path: str, kernel: str) -> bool:
        """Say whether a kernel of a file can be registered by an edit of ours."""
        request = await self._request(path, kernel)
        return request is not None and not request.registered and request.spec.source == path and self._creates()

    async def tolerance(self, path: str, kernel: str, dtype: Any) -> float | None:
        """Return the tolerance that what was found of a kernel would need."""
        found = [
            dict(finding.data)
            for finding in self._session.diagnostics.findings_of(path)
            if finding.kernel == kernel and finding.dtype == dtype and finding.rule == "numeric/tolerance-exceeded"
        ]
        request = await self._request(path, kernel)
        if request is None or not request.registered:
            return None
        return fixes.measured_tolerance(fixes.seen_errors(found))

    async def resolve(self, action: types.CodeAction) -> None:
        """Give an action its edit; one whose edit is not possible any more stays without."""
        given = plain(action.data)
        if action.edit is not None or not isinstance(given, dict):
            return
        try:
            chosen = Chosen(**given)
        except TypeError:
            return
        path = path_of(chosen.uri)
        if path is None:
            return
        changes: list[_Change] = []
        if chosen.what == "ignore":
            text = self._session.text(path)
            change = fixes.ignore(text, chosen.line, chosen.rule) if text is not None else None
            changes = [_Change(path, change)] if change is not None else []
        elif chosen.what in ("tolerance", "limit"):
            changes = self._configured(path, chosen)
        elif chosen.what == "register":
            changes = await self._registered(path, chosen.kernel)
        if changes:
            action.edit = self._workspace_edit(changes)

    def _configured(self, path: str, chosen: Chosen) -> list[_Change]:
        project = self._session.projects.of(path)
        text = self._session.text(project.config) if project is not None and project.config is not None else None
        if project is None or project.config is None or text is None or chosen.value is None:
            return []
        if chosen.what == "tolerance":
            change = fixes.tolerance_edit(text, chosen.kernel, chosen.dtype or "float32", float(chosen.value))
        else:
            change = fixes.limit_edit(text, chosen.kernel, chosen.rule, int(chosen.value))
        return [_Change(project.config, change)] if change is not None else []

    async def _registered(self, path: str, kernel: str) -> list[_Change]:
        request = await self._request(path, kernel)
        if request is None or request.registered:
            return []
        config = discover(Path(path).parent)
        target = Path(config) if config is not None else Path(self._folder_of(path)) / CONFIG_NAME
        reference = fixes.reference_name(path, kernel)
        payload = {
            "request": to_json(request),
            "source": _relative(path, target.parent),
            "reference": _relative(reference, target.parent),
        }
        gathered = await self._session.tasks.run(Job("registration", payload, wall_seconds=_SECONDS))
        made = next(iter(gathered.values), {})
        entry, skeleton = made.get("entry"), made.get("reference")
        if not isinstance(entry, str) or not isinstance(skeleton, str):
            _log.warning("%s cannot be registered: %s", kernel, made.get("trouble", gathered.ending))
            return []
        text = self._session.text(target.as_posix())
        first = _Change(target.as_posix(), append(text or "", entry), create=text is None)
        return [_Change(reference, append("", skeleton), create=True), first]

    def _folder_of(self, path: str) -> str:
        holding = [folder for folder in self._session.folders if Path(path).is_relative_to(folder)]
        return max(holding, key=len, default=str(Path(path).parent))

    async def _request(self, path: str, kernel: str) -> CheckRequest | None:
        return next((item for item in await self._session.requests(path) if item.spec.name == kernel), None)

    def _creates(self) -> bool:
        capabilities = self._server.client_capabilities
        operations = get_capability(capabilities, "workspace.workspace_edit.resource_operations", None)
        changes = get_capability(capabilities, "workspace.workspace_edit.document_changes", False)
        return bool(changes) and types.ResourceOperationKind.Create in (operations or ())

    def _workspace_edit(self, changes: list[_Change]) -> types.WorkspaceEdit:
        if not get_capability(self._server.client_capabilities, "workspace.workspace_edit.document_changes", False):
            plain_edits: dict[str, list[types.TextEdit]] = {}
            for change in changes:
                plain_edits.setdefault(self._session.uri_of(change.path), []).append(self._edit(change))
            return types.WorkspaceEdit(changes=plain_edits)
        steps: list[Any] = []
        for change in changes:
            uri = self._session.uri_of(change.path)
            document = self._session.documents.get(change.path)
            if change.create:
                steps.append(types.CreateFile(uri=uri, options=types.CreateFileOptions(ignore_if_exists=True)))
            version = document.version if document is not None else None
            identifier = types.OptionalVersionedTextDocumentIdentifier(uri=uri, version=version)
            steps.append(types.TextDocumentEdit(text_document=identifier, edits=[self._edit(change)]))
        return types.WorkspaceEdit(document_changes=steps)

    def _edit(self, change: _Change) -> types.TextEdit:
        lines = (self._session.text(change.path) or "").split("\n")
        span = client_range(lines, change.change.range, self._session.publisher.encoding)
        return types.TextEdit(range=span, new_text=change.change.text)


@dataclass(frozen=True, slots=True)
class _Change:
    path: str
    change: TextChange
    create: bool = False


def _relative(path: str, folder: Path) -> str:
    """Return a path as gpuemu.toml writes it: relative to the file, with forward slashes."""
    return Path(os.path.relpath(path, folder)).as_posix()

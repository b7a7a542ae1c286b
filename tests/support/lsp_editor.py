"""A client that behaves like an editor: it opens, edits and saves, and records what is published, with versions."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Union

from lsprotocol import types
from pygls.uris import to_fs_path
from pygls.workspace import TextDocument
from pytest_lsp import LanguageClient, make_test_lsp_client

from gpuemu_lsp.server.client.params import plain

COMMAND = [sys.executable, "-m", "gpuemu_lsp", "--stdio"]
PATIENCE = 30.0
NOTIFICATIONS = (
    "gpuemu/failuresChanged",
    "gpuemu/testsChanged",
    "gpuemu/testState",
    "gpuemu/testOutput",
    "gpuemu/testsEnded",
    "gpuemu/launchesChanged",
)


@dataclass
class Editor:
    """A client that records what is published, with versions, and tracks its open documents."""

    client: LanguageClient
    root: Path
    published: list[types.PublishDiagnosticsParams] = field(default_factory=list)
    statuses: list[Any] = field(default_factory=list)
    progress: list[str] = field(default_factory=list)
    notes: list[tuple[str, Any]] = field(default_factory=list)
    versions: dict[str, int] = field(default_factory=dict)
    violations: list[str] = field(default_factory=list)
    """Violations of the protocol by the server: must be empty when a test ends."""
    latest: dict[str, int] = field(default_factory=dict)
    bars: dict[Any, str] = field(default_factory=dict)
    """The last kind of progress of each token."""

    def uri(self, name: str) -> str:
        return (self.root / name).as_uri()

    async def start(
        self, encodings: list[str] | None = None, folders: list[str] | None = None, **options: Any
    ) -> types.InitializeResult:
        """Initialize with workspace folders below the root; None is the root itself, ``[]`` no root."""
        capabilities = types.ClientCapabilities(
            general=types.GeneralClientCapabilities(
                position_encodings=[types.PositionEncodingKind(name) for name in encodings or ["utf-16"]]
            ),
            window=types.WindowClientCapabilities(work_done_progress=True),
            workspace=types.WorkspaceClientCapabilities(
                workspace_folders=True,
                did_change_configuration=types.DidChangeConfigurationClientCapabilities(),
                diagnostics=types.DiagnosticWorkspaceClientCapabilities(refresh_support=True),
                workspace_edit=types.WorkspaceEditClientCapabilities(
                    document_changes=True, resource_operations=[types.ResourceOperationKind.Create]
                ),
            ),
            text_document=types.TextDocumentClientCapabilities(
                diagnostic=types.DiagnosticClientCapabilities(),
                inlay_hint=types.InlayHintClientCapabilities(),
                code_action=types.CodeActionClientCapabilities(
                    code_action_literal_support=types.ClientCodeActionLiteralOptions(
                        types.ClientCodeActionKindOptions([types.CodeActionKind.QuickFix])
                    ),
                    data_support=True,
                    resolve_support=types.ClientCodeActionResolveOptions(["edit"]),
                ),
                completion=types.CompletionClientCapabilities(
                    completion_item=types.ClientCompletionItemOptions(documentation_format=[types.MarkupKind.Markdown])
                ),
            ),
        )
        return await self.client.initialize_session(
            types.InitializeParams(
                capabilities=capabilities,
                process_id=None,
                root_uri=self.root.as_uri() if folders is None else None,
                workspace_folders=[types.WorkspaceFolder(self.uri(name), name) for name in folders or ()] or None,
                initialization_options=options or None,
            )
        )

    def open(self, name: str, text: str | None = None) -> None:
        path = self.root / name
        if text is None:
            text = path.read_text(encoding="utf-8")
        self.versions[name] = 1
        self.latest.pop(self.uri(name), None)
        item = types.TextDocumentItem(self.uri(name), "cuda-cpp", 1, text)
        self.client.text_document_did_open(types.DidOpenTextDocumentParams(item))

    def change(self, name: str, *changes: Any) -> int:
        self.versions[name] += 1
        identifier = types.VersionedTextDocumentIdentifier(self.versions[name], self.uri(name))
        self.client.text_document_did_change(types.DidChangeTextDocumentParams(identifier, list(changes)))
        return self.versions[name]

    def replace(self, name: str, text: str) -> int:
        return self.change(name, types.TextDocumentContentChangeWholeDocument(text))

    def save(self, name: str, text: str | None = None) -> None:
        """Change and save a document as an editor does; None saves the text on disk."""
        if text is not None:
            self.replace(name, text)
            (self.root / name).write_text(text, encoding="utf-8")
        identifier = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_save(types.DidSaveTextDocumentParams(identifier))

    async def hover(self, name: str, line: int, character: int) -> str:
        where = types.TextDocumentIdentifier(self.uri(name))
        params = types.HoverParams(where, types.Position(line, character))
        result = await asyncio.wait_for(self.client.text_document_hover_async(params), PATIENCE)
        return result.contents.value if result is not None else ""

    def close(self, name: str) -> None:
        del self.versions[name]
        identifier = types.TextDocumentIdentifier(self.uri(name))
        self.client.text_document_did_close(types.DidCloseTextDocumentParams(identifier))

    async def ask(self, method: str, params: Any) -> Any:
        """Send a custom request; return the answer as plain JSON."""
        answer = await asyncio.wait_for(self.client.protocol.send_request_async(method, params), PATIENCE)
        return plain(answer)

    async def lenses(self, name: str) -> dict[int, str]:
        """The titles of the lenses of a file by line, those of a line joined."""
        params = types.CodeLensParams(types.TextDocumentIdentifier(self.uri(name)))
        found = await asyncio.wait_for(self.client.text_document_code_lens_async(params), PATIENCE)
        titles: dict[int, list[str]] = {}
        for lens in found or ():
            titles.setdefault(lens.range.start.line, []).append(lens.command.title if lens.command else "")
        return {line: ", ".join(each) for line, each in titles.items()}

    async def command(self, name: str, *arguments: Any) -> Any:
        params = types.ExecuteCommandParams(command=name, arguments=list(arguments))
        return plain(await asyncio.wait_for(self.client.workspace_execute_command_async(params), PATIENCE))

    async def actions(self, name: str, diagnostic: types.Diagnostic) -> dict[str, types.CodeAction]:
        params = types.CodeActionParams(
            types.TextDocumentIdentifier(self.uri(name)),
            diagnostic.range,
            types.CodeActionContext([diagnostic]),
        )
        found = await asyncio.wait_for(self.client.text_document_code_action_async(params), PATIENCE)
        return {action.title: action for action in found or []}

    async def resolve(self, action: types.CodeAction) -> types.CodeAction:
        return await asyncio.wait_for(self.client.code_action_resolve_async(action), PATIENCE)

    def apply(self, edit: types.WorkspaceEdit) -> None:
        """Apply a workspace edit to files and open documents, and save them."""
        for step in edit.document_changes or []:
            path = Path(to_fs_path(step.uri if isinstance(step, types.CreateFile) else step.text_document.uri))
            if isinstance(step, types.CreateFile):
                path.touch()
                continue
            name = path.name
            if name in self.versions:
                assert step.text_document.version == self.versions[name]
            document = TextDocument("file:///x", path.read_text(encoding="utf-8"))
            for change in step.edits:
                document.apply_change(types.TextDocumentContentChangePartial(change.range, change.new_text))
            if name in self.versions:
                self.save(name, document.source)
            else:
                path.write_text(document.source, encoding="utf-8")

    def received(self, method: str) -> list[Any]:
        return [params for name, params in self.notes if name == method]

    async def idle(self) -> None:
        await asyncio.wait_for(self.client.protocol.send_request_async("gpuemu/waitForIdle", {}), PATIENCE)

    def last(self, name: str) -> types.PublishDiagnosticsParams | None:
        return next((item for item in reversed(self.published) if item.uri == self.uri(name)), None)

    def found(self, name: str) -> list[types.Diagnostic]:
        """The diagnostics that the client shows for a file, without hints."""
        last = self.last(name)
        shown = last.diagnostics if last is not None else []
        return [item for item in shown if item.severity != types.DiagnosticSeverity.Hint]

    def codes(self, name: str) -> set[str]:
        return {str(item.code) for item in self.found(name)}

    def _name(self, uri: str) -> str:
        return next((name for name in self.versions if self.uri(name) == uri), "")

    def keep(self, params: types.PublishDiagnosticsParams) -> None:
        before = self.latest.get(params.uri)
        if before is not None and params.version is not None and before > params.version:
            self.violations.append(f"diagnostics of version {params.version} after those of {before}")
        if params.version is not None and params.version <= self.versions.get(self._name(params.uri), 0):
            self.latest[params.uri] = params.version  # else from before the document was opened again
        for item in params.diagnostics:
            if item.range.start > item.range.end:
                self.violations.append(f"a range whose end precedes its start: {item.range}")
        self.published.append(params)

    def follow(self, token: Any, kind: str) -> None:
        """Record a step of a progress token, which is created, begun once and ended once."""
        if token not in self.client.progress_reports:
            self.violations.append(f"progress of {token!r}, which was never created")
        if (self.bars.get(token), kind) not in {
            (None, "begin"),
            ("begin", "report"),
            ("report", "report"),
            ("begin", "end"),
            ("report", "end"),
        }:
            self.violations.append(f"progress of {token!r}: {kind} after {self.bars.get(token)}")
        self.bars[token] = kind
        self.progress.append(kind)

    async def until(self, holds: Callable[[], bool]) -> None:
        async def poll() -> None:
            while not holds():
                await asyncio.sleep(0.02)

        await asyncio.wait_for(poll(), PATIENCE)


@asynccontextmanager
async def open_editor(folder: Path, command: Sequence[str] = COMMAND) -> AsyncIterator[Editor]:
    """Start a server for a folder; at the end it must have kept to the protocol."""
    client = make_test_lsp_client()
    editor = Editor(client, folder)
    attach(editor)
    await client.start_io(*command)
    yield editor
    if client.capabilities is not None:
        await asyncio.wait_for(client.shutdown_session(), PATIENCE)
    elif not client.stopped:
        client.exit(None)  # a test that did not start the session: the server waits for it
    await client.stop()
    assert editor.violations == []


def attach(editor: Editor) -> None:
    client = editor.client
    # Errors in handlers, and messages that cannot be decoded, would only be logged.
    client.report_server_error = lambda error, source: editor.violations.append(f"{source}: {error}")  # type: ignore[method-assign]
    # lsprotocol would structure a code action with a command as a bare command.
    converter = client.protocol._converter
    converter.register_structure_hook(
        Union[types.Command, types.CodeAction],  # noqa: UP007
        lambda item, _: converter.structure(item, types.CodeAction),
    )

    @client.feature("gpuemu/serverStatus")
    def status(params: Any) -> None:
        editor.statuses.append(params)

    for method in NOTIFICATIONS:

        @client.feature(method)
        def note(params: Any, method: str = method) -> None:
            editor.notes.append((method, plain(params)))

    client.protocol.fm._features.pop(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS, None)
    client.protocol.fm._features.pop(types.PROGRESS, None)

    @client.feature(types.TEXT_DOCUMENT_PUBLISH_DIAGNOSTICS)
    def publish(params: types.PublishDiagnosticsParams) -> None:
        editor.keep(params)

    @client.feature(types.PROGRESS)
    def progress(params: types.ProgressParams) -> None:
        value = params.value
        editor.follow(params.token, value["kind"] if isinstance(value, dict) else value.kind)

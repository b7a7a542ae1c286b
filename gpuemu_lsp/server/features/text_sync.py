"""textDocument/didOpen, didChange, didSave and didClose."""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.document import ContentChange
from gpuemu_lsp.server.documents.locations import path_from_uri, uri_from_path
from gpuemu_lsp.server.handlers import notification
from gpuemu_lsp.server.services import Services


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    sync, virtual = services.sync, services.virtual

    def path_of(uri: str) -> str | None:
        return virtual.untitled_path(uri) or path_from_uri(uri)

    @notification(server, types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        path = path_from_uri(document.uri)
        if path is not None:
            sync.opened(document.uri, path, document.version, document.text, language=document.language_id)
        elif (path := virtual.untitled_opened(document.uri, document.language_id)) is not None:
            sync.opened(uri_from_path(path), path, document.version, document.text, "untitled")

    @notification(server, types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        if path is not None:
            sync.changed(path, params.text_document.version, map(_change, params.content_changes))

    @notification(server, types.TEXT_DOCUMENT_DID_SAVE, types.SaveOptions(include_text=True))
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        if path is not None:
            sync.saved(path, params.text)
            services.programs.saved(path)

    @notification(server, types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        if path is not None:
            sync.closed(path)
            virtual.untitled_closed(params.text_document.uri)


def _change(change: types.TextDocumentContentChangeEvent) -> ContentChange:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return ContentChange(change.text, Position(start.line, start.character), Position(end.line, end.character))
    return ContentChange(change.text)

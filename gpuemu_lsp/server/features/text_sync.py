"""textDocument/didOpen, didChange, didSave and didClose."""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.server.checks.document_sync import Editing
from gpuemu_lsp.server.client.protocol import Server
from gpuemu_lsp.server.documents.document import Change
from gpuemu_lsp.server.documents.uris import path_of


def register(server: Server, editing: Editing) -> None:
    """Add the handlers."""

    @server.feature(types.TEXT_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenTextDocumentParams) -> None:
        document = params.text_document
        path = path_of(document.uri)
        if path is not None:
            editing.opened(document.uri, path, document.version, document.text)

    @server.feature(types.TEXT_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        if path is not None:
            editing.changed(path, params.text_document.version, map(_change, params.content_changes))

    @server.feature(types.TEXT_DOCUMENT_DID_SAVE, types.SaveOptions(include_text=True))
    def did_save(params: types.DidSaveTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        if path is not None:
            editing.saved(path, params.text)

    @server.feature(types.TEXT_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseTextDocumentParams) -> None:
        path = path_of(params.text_document.uri)
        if path is not None:
            editing.closed(path)


def _change(change: types.TextDocumentContentChangeEvent) -> Change:
    if isinstance(change, types.TextDocumentContentChangePartial):
        start, end = change.range.start, change.range.end
        return Change(change.text, Position(start.line, start.character), Position(end.line, end.character))
    return Change(change.text)

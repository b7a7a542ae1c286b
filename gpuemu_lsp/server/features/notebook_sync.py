"""notebookDocument/didOpen, didChange, didSave and didClose."""

from __future__ import annotations

from lsprotocol import types

from gpuemu_lsp.engine.source.notebooks.cells import Cell
from gpuemu_lsp.server.client.protocol import GpuemuServer
from gpuemu_lsp.server.documents.locations import path_from_uri
from gpuemu_lsp.server.handlers import notification
from gpuemu_lsp.server.services import Services

SYNCHRONISED = types.NotebookDocumentSyncOptions(
    [
        types.NotebookDocumentFilterWithNotebook(
            types.NotebookDocumentFilterNotebookType("jupyter-notebook"), [types.NotebookCellLanguage("python")]
        )
    ],
    save=True,
)
"""Notebooks of Jupyter, of which the client sends the Python cells; those with a magic such as ``%%cuda`` are among."""


def register(server: GpuemuServer, services: Services) -> None:
    """Add the handlers."""
    virtual = services.virtual

    def update(uri: str) -> None:
        path, notebook = path_from_uri(uri), server.workspace.get_notebook_document(notebook_uri=uri)
        if path is None or notebook is None:
            return
        documents = [server.workspace.get_text_document(cell.document) for cell in notebook.cells]
        cells = [Cell(one.uri, one.version or 0, one.source) for one in documents]
        virtual.notebook_changed(path, notebook.version, cells)

    @notification(server, types.NOTEBOOK_DOCUMENT_DID_OPEN)
    def did_open(params: types.DidOpenNotebookDocumentParams) -> None:
        update(params.notebook_document.uri)

    @notification(server, types.NOTEBOOK_DOCUMENT_DID_CHANGE)
    def did_change(params: types.DidChangeNotebookDocumentParams) -> None:
        update(params.notebook_document.uri)

    @notification(server, types.NOTEBOOK_DOCUMENT_DID_SAVE)
    def did_save(params: types.DidSaveNotebookDocumentParams) -> None:
        path = path_from_uri(params.notebook_document.uri)
        if path is not None:
            virtual.notebook_saved(path)

    @notification(server, types.NOTEBOOK_DOCUMENT_DID_CLOSE)
    def did_close(params: types.DidCloseNotebookDocumentParams) -> None:
        path = path_from_uri(params.notebook_document.uri)
        if path is not None:
            virtual.notebook_closed(path)

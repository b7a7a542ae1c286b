"""A notebook in tests of the server, as VS Code opens it."""

from __future__ import annotations

from collections.abc import Sequence

from lsprotocol import types

from support.lsp_editor import Editor


class Notebook:
    """A notebook as VS Code opens it: a document with cells that are text documents of their own."""

    def __init__(self, editor: Editor, cells: Sequence[str]) -> None:
        self.editor, self.version = editor, 1
        self.uri = editor.uri("work.ipynb")
        self.cells = [
            f"vscode-notebook-cell:{self.uri.removeprefix('file:')}#W{number}" for number in range(len(cells))
        ]
        editor.client.notebook_document_did_open(
            types.DidOpenNotebookDocumentParams(
                types.NotebookDocument(self.uri, "jupyter-notebook", 1, list(map(self._cell, self.cells))),
                [types.TextDocumentItem(uri, "python", 1, text) for uri, text in zip(self.cells, cells, strict=True)],
            )
        )

    @staticmethod
    def _cell(uri: str) -> types.NotebookCell:
        return types.NotebookCell(types.NotebookCellKind.Code, uri)

    def _change(self, cells: types.NotebookDocumentCellChanges) -> None:
        self.version += 1
        self.editor.client.notebook_document_did_change(
            types.DidChangeNotebookDocumentParams(
                types.VersionedNotebookDocumentIdentifier(self.version, self.uri),
                types.NotebookDocumentChangeEvent(cells=cells),
            )
        )

    def edit(self, number: int, text: str) -> None:
        changed = types.NotebookDocumentCellContentChanges(
            types.VersionedTextDocumentIdentifier(self.version + 1, self.cells[number]),
            [types.TextDocumentContentChangeWholeDocument(text)],
        )
        self._change(types.NotebookDocumentCellChanges(text_content=[changed]))

    def remove(self, number: int) -> None:
        uri = self.cells.pop(number)
        self._change(
            types.NotebookDocumentCellChanges(
                structure=types.NotebookDocumentCellChangeStructure(
                    types.NotebookCellArrayChange(number, 1), did_close=[types.TextDocumentIdentifier(uri)]
                )
            )
        )

    def save(self) -> None:
        identifier = types.NotebookDocumentIdentifier(self.uri)
        self.editor.client.notebook_document_did_save(types.DidSaveNotebookDocumentParams(identifier))

    def close(self) -> None:
        self.editor.client.notebook_document_did_close(
            types.DidCloseNotebookDocumentParams(
                types.NotebookDocumentIdentifier(self.uri), [types.TextDocumentIdentifier(uri) for uri in self.cells]
            )
        )

    def errors(self, uri: str) -> list[tuple[str, int]]:
        """Return rule and 0-based line of the errors that are shown in a cell."""
        last = next((one for one in reversed(self.editor.published) if one.uri == uri), None)
        shown = last.diagnostics if last is not None else []
        return sorted(
            (str(one.code), one.range.start.line) for one in shown if one.severity == types.DiagnosticSeverity.Error
        )

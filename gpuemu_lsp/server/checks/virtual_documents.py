"""Documents that no file has: the cells of open notebooks, and texts that were never saved.

They have paths all the same, as everything in the server goes by path: those of a notebook next to it, those of a text
in the first folder of the workspace.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote

from lsprotocol import types

from gpuemu_lsp.engine.findings import Position
from gpuemu_lsp.engine.source.notebooks.cells import Cell, CellDocument, documents_of, untitled
from gpuemu_lsp.server.checks.document_sync import DocumentSync
from gpuemu_lsp.server.documents.document import ContentChange
from gpuemu_lsp.server.documents.locations import uri_from_path
from gpuemu_lsp.server.notebooks.translation import CellTranslation
from gpuemu_lsp.server.session import Session

_UNTITLED = "untitled:"
_SUFFIXES = {"cuda-cpp": ".cu", "cuda": ".cu", "hip": ".hip", "python": ".py", "ptx": ".ptx"}
"""File name extensions by the language that the client gives a document."""


@dataclass(slots=True)
class VirtualDocuments:
    """Opens, changes, saves and closes the documents of notebooks, and gives untitled documents their paths.

    ``send`` publishes diagnostics; those of documents are sent by the publisher, through ``translation``.
    """

    session: Session
    sync: DocumentSync
    translation: CellTranslation
    send: Callable[[types.PublishDiagnosticsParams], None]
    _notebooks: dict[str, tuple[CellDocument, ...]] = field(default_factory=dict)
    """By the path of the notebook."""
    _untitled: dict[str, str] = field(default_factory=dict)
    """Paths by URI."""

    def notebook_changed(self, path: str, version: int, cells: Sequence[Cell]) -> None:
        """Let the documents of a notebook be those of these cells."""
        before = {document.path: document for document in self._notebooks.get(path, ())}
        documents = documents_of(path, cells)
        self._notebooks[path] = documents
        self.translation.update(tuple(before), documents)
        for document in documents:
            older = before.pop(document.path, None)
            if older is None:
                self.sync.opened(uri_from_path(document.path), document.path, version, document.text, "cells")
            elif older.text != document.text:
                self.sync.changed(document.path, version, [_change(older.text, document.text)])
        for document in before.values():
            self.sync.closed(document.path)
        # Cells that were deleted, or whose text belongs to another document from now on.
        self._forget({cell.uri for document in before.values() for cell in document.cells} - _cells_of(documents))

    def notebook_saved(self, path: str) -> None:
        """Check what depends on the documents of a saved notebook."""
        for document in self._notebooks.get(path, ()):
            self.sync.saved(document.path)

    def notebook_closed(self, path: str) -> None:
        """Close the documents of a notebook."""
        documents = self._notebooks.pop(path, ())
        for document in documents:
            self.sync.closed(document.path)
        self.translation.update([document.path for document in documents], ())
        self._forget(_cells_of(documents))

    def untitled_opened(self, uri: str, language: str) -> str | None:
        """Return the path of a text that is opened; None for one with another scheme or language."""
        suffix = _SUFFIXES.get(language)
        if not uri.startswith(_UNTITLED) or suffix is None:
            return None
        name = Path(unquote(uri.removeprefix(_UNTITLED))).name or "Untitled"
        folder = next(iter(self.session.folders), tempfile.gettempdir())
        path = Path(folder, f"{name.removesuffix(suffix)}{suffix}")
        while path.exists() or path.as_posix() in self.session.documents:
            path = path.with_stem(f"{path.stem} (untitled)")
        self._untitled[uri] = path.as_posix()
        self.translation.update((), [untitled(uri, path.as_posix())])
        return path.as_posix()

    def untitled_path(self, uri: str) -> str | None:
        """Return the path of an untitled document; None if it is not one."""
        return self._untitled.get(uri)

    def untitled_closed(self, uri: str) -> None:
        """Forget an untitled document, after its diagnostics were removed."""
        path = self._untitled.pop(uri, None)
        if path is not None:
            self.translation.update([path], ())

    def _forget(self, cells: set[str]) -> None:
        for params in self.translation.forget(sorted(cells)):
            self.send(params)


def _cells_of(documents: Sequence[CellDocument]) -> set[str]:
    return {cell.uri for document in documents for cell in document.cells}


def _change(before: str, after: str) -> ContentChange:
    """Return the change of the lines that differ: ranges that were found on the others move with them."""
    old, new = before.split("\n"), after.split("\n")
    first = _common(zip(old, new, strict=False))
    last = _common(zip(reversed(old[first:]), reversed(new[first:]), strict=False))
    lines = new[first : len(new) - last]
    if last == 0:
        if first == 0:
            return ContentChange(after)
        # From the end of the last common line on.
        start, text = Position(first - 1, len(old[first - 1])), "".join(f"\n{line}" for line in lines)
        return ContentChange(text, start, Position(len(old) - 1, len(old[-1])))
    return ContentChange("".join(f"{line}\n" for line in lines), Position(first, 0), Position(len(old) - last, 0))


def _common(pairs: Iterator[tuple[str, str]]) -> int:
    count = 0
    for before, after in pairs:
        if before != after:
            break
        count += 1
    return count

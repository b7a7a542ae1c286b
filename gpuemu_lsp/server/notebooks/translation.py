"""URIs and positions of cells in the client's messages, and of their documents in the server's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, cast

import attrs
from lsprotocol import types
from pygls.uris import from_fs_path

from gpuemu_lsp.engine.source.notebooks.cells import CellDocument

_T = TypeVar("_T")


@dataclass(slots=True)
class CellTranslation:
    """Translation for the documents of all open notebooks."""

    _documents: dict[str, CellDocument] = field(default_factory=dict)
    """By the URI that the server uses."""
    _cells: dict[str, tuple[str, int]] = field(default_factory=dict)
    """The document and the number of each cell, by its URI."""
    _sent: dict[str, types.PublishDiagnosticsParams] = field(default_factory=dict)

    def update(self, removed: Sequence[str], documents: Sequence[CellDocument]) -> None:
        """Replace the documents of the paths ``removed`` by others."""
        for path in removed:
            document = self._documents.pop(_document_uri(path), None)
            for cell in document.cells if document is not None else ():
                self._cells.pop(cell.uri, None)
        for document in documents:
            uri = _document_uri(document.path)
            self._documents[uri] = document
            self._cells |= {cell.uri: (uri, number) for number, cell in enumerate(document.cells)}

    def to_server(self, params: _T) -> _T:
        """Return the parameters of a message about a cell as those about its document; others unchanged."""
        cell = self._cells.get(_uri(params))
        if cell is None:
            return params
        uri, number = cell
        start = self._documents[uri].starts[number]
        identifier: Any = getattr(params, "text_document", None)
        moved: Any = _mapped(params, lambda value: _moved(value, start))
        return cast(_T, attrs.evolve(moved, text_document=attrs.evolve(identifier, uri=uri)))

    def to_client(self, params: object, result: _T) -> _T:
        """Return the result of a request with the positions of cells: of the cell that ``params`` is about."""
        return self._of_client(result, self._cells.get(_uri(params))) if self._documents else result

    def publish(self, params: types.PublishDiagnosticsParams) -> Iterator[types.PublishDiagnosticsParams]:
        """Yield the diagnostics to send: of a notebook's document those of each cell that has others than before."""
        document = self._documents.get(params.uri)
        if document is None:
            yield params
            return
        for number, cell in enumerate(document.cells):
            version = params.version if cell.version is None else cell.version
            own = [each for each in params.diagnostics if document.cell_at(each.range.start.line) == number]
            moved = [self._of_client(each, (params.uri, number)) for each in own]
            current = types.PublishDiagnosticsParams(cell.uri, moved, version)
            before = self._sent.get(cell.uri)
            if current.diagnostics or (before is not None and before.diagnostics):
                self._sent[cell.uri] = current
                if before is None or (current.diagnostics, current.version) != (before.diagnostics, before.version):
                    yield current

    def forget(self, cells: Sequence[str]) -> Iterator[types.PublishDiagnosticsParams]:
        """Yield empty diagnostics for cells that are no longer there."""
        for uri in cells:
            before = self._sent.pop(uri, None)
            if before is not None and before.diagnostics:
                yield types.PublishDiagnosticsParams(uri, [])

    def _of_client(self, value: _T, cell: tuple[str, int] | None) -> _T:
        """Return a value of a message with the URIs and positions of cells; ``cell`` is that of bare positions."""
        document, number = (None, 0) if cell is None else (self._documents[cell[0]], cell[1])

        def change(item: object) -> object:
            if isinstance(item, types.Location):
                return self._location(item)
            if isinstance(item, types.WorkspaceEdit):
                return self._edit(item)
            if isinstance(item, list | tuple) and document is not None:
                own = [one for one in item if _line(one) is None or document.cell_at(_line(one) or 0) == number]
                return None if len(own) == len(item) else [self._of_client(one, cell) for one in own]
            return None if document is None else _moved(item, -document.starts[number])

        return cast(_T, _mapped(value, change))

    def _location(self, location: types.Location) -> types.Location:
        document = self._documents.get(location.uri)
        number = None if document is None else document.cell_at(location.range.start.line)
        if document is None or number is None:
            return location
        span = _mapped(location.range, lambda value: _moved(value, -document.starts[number]))
        return types.Location(document.cells[number].uri, span)

    def _edit(self, edit: types.WorkspaceEdit) -> types.WorkspaceEdit:
        """Return an edit with those of a notebook's document as edits of its cells."""
        changes: dict[str, list[types.TextEdit]] = {}
        for uri, edits in (edit.changes or {}).items():
            for each in edits:
                self._add(changes, uri, each)
        steps: list[Any] = []
        for step in edit.document_changes or ():
            if not isinstance(step, types.TextDocumentEdit) or step.text_document.uri not in self._documents:
                steps.append(step)
                continue
            cells: dict[str, list[types.TextEdit]] = {}
            for part in step.edits:
                self._add(cells, step.text_document.uri, part)
            versions = {cell.uri: cell.version for cell in self._documents[step.text_document.uri].cells}
            steps += [
                types.TextDocumentEdit(types.OptionalVersionedTextDocumentIdentifier(uri, versions[uri]), edits)
                for uri, edits in cells.items()
            ]
        return attrs.evolve(
            edit,
            changes=None if edit.changes is None else changes,
            document_changes=None if edit.document_changes is None else steps,
        )

    def _add(self, changes: dict[str, list[types.TextEdit]], uri: str, edit: Any) -> None:
        place = self._location(types.Location(uri, edit.range))
        changes.setdefault(place.uri, []).append(attrs.evolve(edit, range=place.range))


def _document_uri(path: str) -> str:
    return from_fs_path(path) or ""


def _uri(params: object) -> str:
    return str(getattr(getattr(params, "text_document", None), "uri", ""))


def _line(item: object) -> int | None:
    """Return the line at which an item of a list is, if it says."""
    place = getattr(item, "range", None) or getattr(item, "position", None)
    place = place.start if isinstance(place, types.Range) else place
    return place.line if isinstance(place, types.Position) and not isinstance(item, types.Location) else None


def _moved(value: object, lines: int) -> types.Position | None:
    """Return a position some lines further; None for another value."""
    return types.Position(max(value.line + lines, 0), value.character) if isinstance(value, types.Position) else None


def _mapped(value: Any, change: Callable[[object], object]) -> Any:
    """Return a value of a message whose parts are replaced where ``change`` does not return None."""
    changed = change(value)
    if changed is not None:
        return changed
    if isinstance(value, list | tuple):
        return [_mapped(item, change) for item in value]
    if attrs.has(type(value)):
        return type(value)(**{one.name: _mapped(getattr(value, one.name), change) for one in attrs.fields(type(value))})
    return value

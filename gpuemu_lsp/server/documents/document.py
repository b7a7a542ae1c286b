"""Open documents: the text in the editor, and the edits that move ranges found in an older text."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias

from gpuemu_lsp.engine.findings import Position, Range
from gpuemu_lsp.server.documents.locations import Encoding, byte_position

DocumentKind: TypeAlias = Literal["file", "cells", "untitled"]
"""A file, cells of a notebook, or a text that was never saved."""
_MAX_EDITS = 5000
"""Older edits are discarded; a range found before them then keeps its line."""


@dataclass(frozen=True, slots=True)
class ContentChange:
    """One change as the client sends it, columns in its code units; without a range it replaces the whole text."""

    text: str
    start: Position | None = None
    end: Position | None = None


@dataclass(frozen=True, slots=True)
class AppliedEdit:
    """A replaced byte range, the number of lines it added (negative: removed), and the revision it created."""

    revision: int
    span: Range
    lines_added: int


class Document:
    """A document between didOpen and didClose.

    ``uri`` is the client's own spelling. ``revision`` is the session's revision of the last edit, 0 before the first:
    opening a document is not an edit. ``saved`` is the revision at which disk and text last agreed.
    ``differs_from_disk``: they did not when the text was last prepared for a check or compilation. The text is kept as
    lines, so that an edit costs the lines it touches; it is joined when it is asked for. ``focus`` is the 0-based line
    of the last edit or of the cursor, as far as the client has said where it is. ``path`` is that of a file only if
    ``kind`` says so: else nothing on disk refers to the document, and nothing is stored for it. ``language`` is the
    client's name of the text's language, empty if it has not said one.
    """

    def __init__(
        self,
        uri: str,
        path: str,
        version: int,
        text: str,
        revision: int = 0,
        saved: int = 0,
        kind: DocumentKind = "file",
        language: str = "",
    ) -> None:
        self.kind: DocumentKind = kind
        self.language = language
        self.uri, self.path, self.version = uri, path, version
        self.revision, self.saved = revision, saved
        self.differs_from_disk = False
        self.focus: int | None = None
        self.edits: deque[AppliedEdit] = deque(maxlen=_MAX_EDITS)
        self._lines = text.split("\n")
        self._text: str | None = text

    @property
    def text(self) -> str:
        """The text in the editor."""
        if self._text is None:
            self._text = "\n".join(self._lines)
        return self._text

    @property
    def lines(self) -> Sequence[str]:
        """The text's lines, split at line feeds; valid until the next edit."""
        return self._lines

    def apply(self, change: ContentChange, revision: int, encoding: Encoding) -> None:
        """Apply one change (LSP 3.17, TextDocumentContentChangeEvent)."""
        self.revision = revision
        if change.start is None or change.end is None:
            self._lines, self._text = change.text.split("\n"), change.text
            return
        start = byte_position(self._lines, change.start, encoding)
        end = max(start, byte_position(self._lines, change.end, encoding))
        inserted = change.text.split("\n")
        added = len(inserted) - 1 - (end.line - start.line)
        tail = _tail(self._lines[end.line], end.column)
        inserted[0] = _head(self._lines[start.line], start.column) + inserted[0]
        inserted[-1] += tail
        self._lines[start.line : end.line + 1] = inserted
        self._text = None
        self.focus = start.line + len(inserted) - 1
        self.edits.append(AppliedEdit(revision, Range(start, end), added))

    def edited_since(self, revision: int) -> bool:
        """Return whether the text was edited after a revision."""
        return self.revision > revision

    def migrate(self, span: Range, revision: int) -> Range:
        """Return a range of the text of ``revision`` on its current lines. Columns are kept."""
        for edit in self.edits:
            if edit.revision > revision and edit.lines_added:
                span = _migrate(span, edit)
        return span


def _migrate(span: Range, edit: AppliedEdit) -> Range:
    if edit.span.end <= span.start or edit.span.end.line < span.start.line:
        return Range(_shifted(span.start, edit.lines_added), _shifted(span.end, edit.lines_added))
    if edit.span.start.line > span.end.line:
        return span
    # The edit lies within the range: keep the range's start, and shift its end.
    end = max(span.start, _shifted(span.end, edit.lines_added))
    return Range(span.start, end)


def _shifted(position: Position, lines: int) -> Position:
    return replace(position, line=max(position.line + lines, 0))


def _head(line: str, column: int) -> str:
    # An editor may send lone surrogates, which plain UTF-8 cannot encode.
    return line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "surrogatepass")


def _tail(line: str, column: int) -> str:
    return line.encode("utf-8", "surrogatepass")[column:].decode("utf-8", "surrogatepass")

"""Open documents: their text as the editor has it, and the edits that move what was found in an older text."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field, replace

from gpuemu_lsp.engine.findings import Position, Range
from gpuemu_lsp.server.documents.positions import Encoding, byte_position

_MOST_EDITS = 5000
"""Older edits are forgotten; what was found before them then stays on its old line."""


@dataclass(frozen=True, slots=True)
class Change:
    """One change as the client sends it: columns in its units; a range of None replaces the whole text."""

    text: str
    start: Position | None = None
    end: Position | None = None


@dataclass(frozen=True, slots=True)
class Edit:
    """A replaced span in bytes, how many lines follow it fewer or more, and the session's revision it made."""

    revision: int
    span: Range
    lines: int


@dataclass(slots=True)
class Document:
    """A document between didOpen and didClose.

    ``uri`` is the client's own spelling. ``saved`` is the session's revision at which disk and text last agreed.
    """

    uri: str
    path: str
    version: int
    text: str
    revision: int
    saved: int
    edits: deque[Edit] = field(default_factory=lambda: deque(maxlen=_MOST_EDITS))

    def apply(self, change: Change, revision: int, encoding: Encoding) -> None:
        """Take in one change (LSP 3.17, TextDocumentContentChangeEvent)."""
        self.revision = revision
        if change.start is None or change.end is None:
            self.text = change.text
            return
        lines = self.text.split("\n")
        start = byte_position(lines, change.start, encoding)
        end = byte_position(lines, change.end, encoding)
        before = [*lines[: start.line], _head(lines[start.line], start.column)]
        after = [_tail(lines[end.line], end.column), *lines[end.line + 1 :]]
        self.text = "\n".join(before) + change.text + "\n".join(after)
        added = change.text.count("\n") - (end.line - start.line)
        self.edits.append(Edit(revision, Range(start, end), added))

    def edited_since(self, revision: int) -> bool:
        """Say whether the text is another than it was at a revision."""
        return self.revision > revision

    def migrate(self, place: Range, revision: int) -> Range:
        """Move a range found in the text of ``revision`` to where its line stands now."""
        for edit in self.edits:
            if edit.revision > revision and edit.lines:
                place = _moved(place, edit)
        return place


def _moved(place: Range, edit: Edit) -> Range:
    if edit.span.end <= place.start or edit.span.end.line < place.start.line:
        return Range(_down(place.start, edit.lines), _down(place.end, edit.lines))
    if edit.span.start.line > place.end.line:
        return place
    # The edit is within what was found: keep its beginning, and let its end follow.
    end = max(place.start, _down(place.end, edit.lines))
    return Range(place.start, end)


def _down(position: Position, lines: int) -> Position:
    return replace(position, line=max(position.line + lines, 0))


def _head(line: str, column: int) -> str:
    return line.encode("utf-8", "surrogatepass")[:column].decode("utf-8", "surrogatepass")


def _tail(line: str, column: int) -> str:
    return line.encode("utf-8", "surrogatepass")[column:].decode("utf-8", "surrogatepass")

"""Open documents: applied changes, and ranges migrated to the current text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from gpuemu_lsp.engine.findings import Position, Range
from gpuemu_lsp.server.documents.document import ContentChange, Document

_UNITS = {"utf-8": ("utf-8", 1), "utf-16": ("utf-16-le", 2), "utf-32": ("utf-32-le", 4)}


def document(text: str = "one\ntwo\nthree") -> Document:
    return Document("file:///k.cu", "/k.cu", 1, text, revision=1, saved=1)


def insert(line: int, text: str) -> ContentChange:
    return ContentChange(text, Position(line, 0), Position(line, 0))


def test_a_partial_change_replaces_a_range_in_the_clients_units():
    doc = document("a😀b")
    doc.apply(ContentChange("x", Position(0, 1), Position(0, 3)), 2, "utf-16")
    assert doc.text == "axb" and doc.revision == 2


def test_a_change_without_range_replaces_the_text():
    doc = document()
    doc.apply(ContentChange("new"), 2, "utf-16")
    assert doc.text == "new"


def test_ranges_move_with_lines_inserted_and_removed_above():
    doc = document()
    span = Range.of(2, 1, 2, 4)
    doc.apply(insert(0, "x\ny\n"), 2, "utf-16")
    assert doc.migrate(span, 1) == Range.of(4, 1, 4, 4)
    doc.apply(ContentChange("", Position(0, 0), Position(1, 0)), 3, "utf-16")
    assert doc.migrate(span, 1) == Range.of(3, 1, 3, 4)


def test_edits_up_to_the_revision_and_below_the_range_do_not_move_it():
    doc = document()
    doc.apply(insert(0, "x\n"), 2, "utf-16")
    span = Range.of(1, 0, 1, 3)
    assert doc.migrate(span, 2) == span
    doc.apply(insert(3, "y\n"), 3, "utf-16")
    assert doc.migrate(span, 2) == span


def test_an_edit_within_a_range_moves_its_end():
    doc = document()
    doc.apply(insert(1, "x\n"), 2, "utf-16")
    assert doc.migrate(Range.of(0, 0, 2, 5), 1) == Range.of(0, 0, 3, 5)


def test_edited_since_compares_revisions():
    doc = document()
    assert not doc.edited_since(1)
    doc.apply(ContentChange("new"), 2, "utf-16")
    assert doc.edited_since(1) and not doc.edited_since(2)


_TEXT = st.text("ab\n\r\té\U0001f600\ufeff{", max_size=30)
_PLACE = st.builds(Position, st.integers(0, 6), st.integers(0, 9))


@given(
    text=_TEXT, changes=st.lists(st.tuples(_PLACE, _PLACE, _TEXT), max_size=6), encoding=st.sampled_from(tuple(_UNITS))
)
def test_edits_of_lines_are_edits_of_the_text(text: str, changes: list[tuple[Position, Position, str]], encoding: str):
    doc, whole = document(text), text
    for first, second, inserted in changes:
        start, end = sorted((first, second))
        doc.apply(ContentChange(inserted, start, end), 2, encoding)
        begin, stop = (_offset(whole, position, encoding) for position in (start, end))
        whole = whole[:begin] + inserted + whole[stop:]
        assert doc.text == whole and list(doc.lines) == whole.split("\n")


def _offset(text: str, position: Position, encoding: str) -> int:
    """Return the index of a client's position in a text, by encoding it."""
    lines = text.split("\n")
    if position.line >= len(lines):
        return len(text)
    before = sum(len(line) + 1 for line in lines[: position.line])
    units, size = _UNITS[encoding]
    encoded = lines[position.line].encode(units)[: position.column * size]
    return before + len(encoded.decode(units, "ignore"))

"""Notebooks on disk (nbformat 4): the cells of a ``.ipynb``, and where each of their lines is in its JSON."""

from __future__ import annotations

import json
import re
from bisect import bisect
from collections.abc import Iterator
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.findings import Finding, Place, Position, Range
from gpuemu_lsp.engine.source.notebooks.cells import Cell, CellDocument, documents_of

SUFFIX = ".ipynb"
_FORMAT, _CODE = 4, "code"
_STRINGS = json.JSONDecoder(strict=False)
_BLANK = re.compile(r"[ \t\r\n]*")
_SCALAR = re.compile(r"[-+.\w]+")
_ESCAPED = re.compile(r"\\u[dD][89abAB]\w\w\\u\w{4}|\\u\w{4}|\\.|[^\\]", re.DOTALL)
"""One character of a string as JSON has it; two escapes are one above U+FFFF."""


class NotebookError(ValueError):
    """A file that is not a notebook of a format that is read; the message follows the name of the file."""


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of a cell: its 0-based line and the byte column in the file where its text begins, and that text."""

    line: int
    column: int
    code: str

    def position(self, column: int) -> Position:
        """Return where a byte column of the line is in the file."""
        left, skipped = column, 0
        for escaped in _ESCAPED.findall(self.code):
            if left <= 0:
                break
            left -= len(_unescaped(escaped).encode("utf-8", "surrogatepass"))
            skipped += len(escaped.encode())
        return Position(self.line, self.column + skipped)


@dataclass(frozen=True, slots=True)
class Notebook:
    """A notebook in a file: the sources that its cells are, and the lines of each cell by its URI.

    The URI of a cell is its 1-based number among the cells of all kinds.
    """

    path: str
    documents: tuple[CellDocument, ...]
    lines: dict[str, tuple[_Line, ...]]

    def located(self, finding: Finding) -> Finding:
        """Return a finding about one of the sources with the places in the notebook's file."""
        related = (replace(one, place=self._place(one.place)) for one in finding.related)
        return replace(
            finding,
            place=self._place(finding.place),
            related=tuple(related),
            consequences=tuple(map(self.located, finding.consequences)),
            data={**finding.data, **self._cell(finding.place)},
        )

    def has(self, path: str) -> bool:
        """Return whether a path is that of one of the sources."""
        return any(document.path == path for document in self.documents)

    def _cell(self, place: Place) -> dict[str, int]:
        """Return the number of the cell and the 1-based line in it, nothing for another file."""
        for document in self.documents:
            number = document.cell_at(place.range.start.line) if document.path == place.path else None
            if number is not None:
                line = place.range.start.line - document.starts[number] + 1
                return {"cell": int(document.cells[number].uri), "cell_line": line}
        return {}

    def _place(self, place: Place) -> Place:
        document = next((one for one in self.documents if one.path == place.path), None)
        if document is None:
            return place
        start, end = (self._position(document, one) for one in (place.range.start, place.range.end))
        return replace(place, path=self.path, range=Range(start, max(start, end)))

    def _position(self, document: CellDocument, position: Position) -> Position:
        number = document.cell_at(position.line)
        lines = self.lines[document.cells[number].uri] if number is not None else ()
        if number is None or not lines:
            return Position(0, 0)
        within = min(position.line - document.starts[number], len(lines) - 1)
        return lines[within].position(position.column)


def read_notebook(path: str, text: str) -> Notebook:
    """Return the notebook in a file.

    Raises
    ------
    NotebookError
        If the text is not JSON, or no notebook of format 4 in Python.
    """
    try:
        root = _Scanner(text).value(0)[0]
    except IndexError as error:
        raise NotebookError("is not JSON (it ends within a value)") from error
    except (ValueError, RecursionError) as error:
        raise NotebookError(f"is not JSON ({error})") from error
    if not isinstance(root, dict) or root.get("nbformat") != _FORMAT:
        raise NotebookError(f"is not a notebook of format {_FORMAT}; `jupyter nbconvert --to notebook` converts others")
    language = _language(root)
    if language not in ("", "python"):
        raise NotebookError(f"has cells in {language}; cells in Python are checked")
    cells, lines = [], {}
    newlines = [found.start() for found in re.finditer("\n", text)]
    for number, cell in enumerate(_listed(root.get("cells")), 1):
        if isinstance(cell, dict) and _string(cell.get("cell_type")) == _CODE:
            listed = tuple(_lines(text, newlines, cell.get("source")))
            cells.append(Cell(str(number), None, "\n".join(_unescaped(line.code) for line in listed)))
            lines[str(number)] = listed
    return Notebook(path, documents_of(path, cells), lines)


@dataclass(frozen=True, slots=True)
class _String:
    """A string of the file: its value, and the offsets of its first character and of the quote that ends it."""

    value: str
    start: int
    end: int


class _Scanner:
    """A reader of JSON that keeps where strings are."""

    def __init__(self, text: str) -> None:
        self._text = text

    def value(self, at: int) -> tuple[object, int]:
        """Return the value at an offset, and the offset behind it."""
        at = self._skip(at)
        sign = self._text[at]
        if sign == '"':
            value, end = _STRINGS.raw_decode(self._text, at)
            return _String(str(value), at + 1, end - 1), end
        if sign in "[{":
            return self._several(at)
        found = _SCALAR.match(self._text, at)
        if found is None:
            raise json.JSONDecodeError("Expecting value", self._text, at)
        return json.loads(found[0]), found.end()

    def _several(self, at: int) -> tuple[object, int]:
        close = {"{": "}", "[": "]"}[self._text[at]]
        keys, items = list[str](), list[object]()
        at = self._skip(at + 1)
        while self._text[at] != close:
            item, at = self.value(at)
            at = self._skip(at)
            if close == "}":
                at = self._skip(self._after(":", at))
                keys.append(item.value if isinstance(item, _String) else str(item))
                item, at = self.value(at)
                at = self._skip(at)
            items.append(item)
            if self._text[at] != close:
                at = self._skip(self._after(",", at))
        return (dict(zip(keys, items, strict=True)) if close == "}" else items), at + 1

    def _after(self, sign: str, at: int) -> int:
        if self._text[at] != sign:
            raise json.JSONDecodeError(f"Expecting '{sign}' delimiter", self._text, at)
        return at + 1

    def _skip(self, at: int) -> int:
        found = _BLANK.match(self._text, at)
        return found.end() if found is not None else at


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []


def _language(root: dict[str, object]) -> str:
    """Return the language of the kernel, empty if the notebook does not say it."""
    metadata = root.get("metadata")
    for key in ("kernelspec", "language_info"):
        entry = metadata.get(key) if isinstance(metadata, dict) else None
        if isinstance(entry, dict):
            name = _string(entry.get("language" if key == "kernelspec" else "name"))
            if name:
                return name.lower()
    return ""


def _string(value: object) -> str:
    return value.value if isinstance(value, _String) else ""


def _lines(text: str, newlines: list[int], source: object) -> Iterator[_Line]:
    """Yield the lines of a cell: a list of strings, which end with their newline, or one string."""
    code, first = "", 0
    for part in _listed(source) if isinstance(source, list) else [source]:
        if not isinstance(part, _String):
            continue
        for escaped in _ESCAPED.finditer(text, part.start, part.end):
            first = first if code else escaped.start()
            if escaped[0] in ("\\n", "\n"):
                yield _line(text, newlines, first, code)
                code = ""
            else:
                code += escaped[0]
    yield _line(text, newlines, first, code)


def _line(text: str, newlines: list[int], offset: int, code: str) -> _Line:
    line = bisect(newlines, offset - 1)
    begin = newlines[line - 1] + 1 if line else 0
    return _Line(line, len(text[begin:offset].encode()), code)


def _unescaped(code: str) -> str:
    """Return what a part of a JSON string stands for."""
    return str(_STRINGS.decode(f'"{code}"'))

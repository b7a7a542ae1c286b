"""Lines of code as a suppression comment sees them: of a C++ or Python file, or of the CUDA code in a string."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Position, Range
from gpuemu_lsp.engine.project.edits import TextChange, applied
from gpuemu_lsp.engine.source.ignore_comments import HASH_MARK, MARK
from gpuemu_lsp.engine.source.python import read_python
from gpuemu_lsp.engine.source.python.mapped_text import MappedText
from gpuemu_lsp.engine.source.python.source_files import SourceFiles
from gpuemu_lsp.engine.source.python.syntax import in_string


@dataclass(frozen=True, slots=True)
class EditableLine:
    """One line of a code.

    ``place`` returns where a character of the line stands in the file. ``accepts`` returns whether the file still has
    the same code after a change, but for that change: a line break of a string may be an escape sequence. ``whole``:
    the line is also a line of the file, which can be removed.
    """

    lines: Sequence[str]
    number: int
    comment: str
    place: Callable[[int], Position]
    accepts: Callable[[TextChange, str], bool] = lambda _change, _line: True
    whole: bool = True

    @property
    def content(self) -> str:
        """The line without its end."""
        return self.lines[self.number].removesuffix("\r")

    @property
    def suppression(self) -> re.Match[str] | None:
        """The suppression comment of the line."""
        return (MARK if self.comment == "//" else HASH_MARK).search(self.content)

    def changed(self, start: int, end: int, new: str) -> TextChange | None:
        """Return the change that replaces some characters of the line; None where the file does not allow it."""
        change = TextChange(Range(self.place(start), self.place(end)), new)
        line = self.content[:start] + new + self.content[end:]
        return change if self.accepts(change, line) else None


def code_line(path: str, text: str, at: Position) -> EditableLine | None:
    """Return the line of code at a position; None where a comment cannot be added, as in another string of Python."""
    lines = text.split("\n")
    if at.line >= len(lines):
        return None
    if not path.endswith(".py"):
        return EditableLine(lines, at.line, "//", _place_in(lines[at.line], at.line))
    offset = len("\n".join(lines[: at.line]).encode("utf-8", "surrogatepass")) + (at.line > 0) + at.column
    source = read_python(path, text)
    for number, cuda in enumerate(source.cuda):
        index = _index_at(cuda.text, offset, offset - at.column)
        if index is not None:
            return _line_of_string(path, text, number, cuda.text, index, source.files)
    content = lines[at.line]
    if content.rstrip().endswith("\\") or in_string(text, Position(at.line, len(content.rstrip().encode()))):
        return None
    return EditableLine(lines, at.line, "#", _place_in(content, at.line))


def _place_in(content: str, number: int) -> Callable[[int], Position]:
    return lambda character: Position(number, len(content[:character].encode("utf-8", "surrogatepass")))


def _index_at(code: MappedText, offset: int, line_start: int) -> int | None:
    """Return the last character of a code that stands at or before a byte of the file, on the line of that byte."""
    last = None
    for index, origin in enumerate(code.origins):
        if line_start <= origin <= offset and (last is None or origin > code.origins[last]):
            last = index
    return last


def _line_of_string(
    path: str, text: str, number: int, code: MappedText, index: int, files: SourceFiles
) -> EditableLine | None:
    lines = code.text.split("\n")
    row = code.text.count("\n", 0, index)
    start = sum(len(line) + 1 for line in lines[:row])

    def accepts(change: TextChange, line: str) -> bool:
        codes = read_python(path, applied(text, change)).cuda
        wanted = "\n".join([*lines[:row], line, *lines[row + 1 :]])
        return number < len(codes) and codes[number].text.text.replace("\r", "") == wanted.replace("\r", "")

    def place(character: int) -> Position:
        # Behind the previous character: a carriage return that Python drops precedes the line break.
        return files.position(code.stops[start + character - 1] if character > 0 else code.end_of(start))

    return EditableLine(lines, row, "//", place, accepts, whole=False)

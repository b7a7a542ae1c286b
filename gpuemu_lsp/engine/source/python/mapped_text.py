"""Text with an origin for each character.

A string of a program need not stand in its file as it is: escape sequences are shorter than their spelling, adjacent
literals are joined, ``textwrap.dedent`` removes columns, constants come from another module. Findings have positions in
the text that the compiler saw; the origins lead them back to the line and column of the file.
"""

from __future__ import annotations

import textwrap
from array import array
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from gpuemu_lsp.engine.findings import Place, Position, Range
from gpuemu_lsp.engine.source.python.source_files import SourceFiles


@dataclass(frozen=True)
class MappedText:
    """A text whose character ``i`` is spelled by the bytes from ``origins[i]`` to ``stops[i]`` of a file.

    Several characters may have one spelling: those of a constant in an f-string. ``end`` is the origin after the last
    character.
    """

    text: str
    origins: array[int]
    stops: array[int]
    end: int

    @staticmethod
    def constant(text: str, origin: int, end: int) -> MappedText:
        """Return a text all of whose characters stem from one place, such as a constant in an f-string."""
        return MappedText(text, array("Q", [origin] * len(text)), array("Q", [end] * len(text)), end)

    @staticmethod
    def verbatim(text: str, origin: int) -> MappedText:
        """Return a text that stands at ``origin`` as it is, with the line ends that Python reads (line feeds)."""
        origins, stops = array("Q"), array("Q")
        for character in text:
            origins.append(origin)
            origin += len(character.encode())
            stops.append(origin)
        return MappedText(text, origins, stops, origin).with_unix_line_ends()

    def with_unix_line_ends(self) -> MappedText:
        """Replace carriage returns, alone or with a line feed, by line feeds, as Python does when it reads a file."""
        if "\r" not in self.text:
            return self
        parts, start = [], 0
        for index, character in enumerate(self.text):
            if character == "\r":
                parts.append(self.cut(start, index))
                if self.text[index + 1 : index + 2] != "\n":
                    parts.append(MappedText.constant("\n", self.origins[index], self.stops[index]))
                start = index + 1
        return joined([*parts, self.cut(start, len(self.text))])

    def cut(self, start: int, stop: int) -> MappedText:
        """Return the characters from ``start`` to ``stop``."""
        return MappedText(self.text[start:stop], self.origins[start:stop], self.stops[start:stop], self.end_of(stop))

    def end_of(self, stop: int) -> int:
        """Return the origin at which the character ``stop`` begins, or the end of the text."""
        return self.origins[stop] if stop < len(self.origins) else self.end

    def dedented(self) -> MappedText:
        """Apply :func:`textwrap.dedent`."""
        after = textwrap.dedent(self.text).split("\n")
        start = 0
        kept = []
        lines = self.text.split("\n")
        for number, (line, short) in enumerate(zip(lines, after, strict=True)):
            # dedent also empties lines of white space only, from the front as well as at the end.
            first = start + len(line) - len(short)
            last = start + len(line) + (number < len(lines) - 1)
            kept.append(self.cut(first, last))
            start += len(line) + 1
        return joined(kept) if kept else self

    def stripped(self, characters: str | None = None, left: bool = True, right: bool = True) -> MappedText:
        """Apply ``str.strip``, ``lstrip`` or ``rstrip``."""
        start = len(self.text) - len(self.text.lstrip(characters)) if left else 0
        stop = len(self.text.rstrip(characters)) if right else len(self.text)
        return self.cut(start, max(start, stop))

    def replaced(self, old: str, new: MappedText, count: int = -1) -> MappedText:
        """Apply ``str.replace``; a text of one line stems from the place of the old one, others from their own."""
        if not old:
            return self
        parts = []
        start = 0
        while count != 0 and (found := self.text.find(old, start)) >= 0:
            stop = found + len(old)
            parts += [self.cut(start, found), inserted(new, self.origins[found], self.stops[stop - 1])]
            start = stop
            count -= 1
        return joined([*parts, self.cut(start, len(self.text))])

    def aligned(self, files: SourceFiles) -> MappedText:
        """Insert line breaks so that each line has the number of its line in the ``.py``, as far as line breaks can.

        Messages and debug information then have the line numbers of the file. Nothing is inserted after a backslash:
        the line of a macro goes on in the next one.
        """
        parts: list[MappedText] = []
        number = 0
        for start, stop in pairwise([*self._line_starts, len(self.text)]):
            origin = self.end_of(start)
            missing = files.position(origin).line - number if files.in_first(origin) else 0
            if missing > 0 and not self.text[:start].endswith("\\\n"):
                parts.append(MappedText.constant("\n" * missing, origin, origin))
                number += missing
            parts.append(self.cut(start, stop))
            number += 1
        return joined(parts)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for index, character in enumerate(self.text):
            if character == "\n":
                starts.append(index + 1)
        return starts

    def index(self, position: Position) -> int:
        """Return the index of the character at a position of the text; columns are UTF-8 bytes."""
        if position.line >= len(self._line_starts):
            return len(self.text)
        start = self._line_starts[position.line]
        stop = self._line_starts[position.line + 1] if position.line + 1 < len(self._line_starts) else len(self.text)
        characters = len(self.text[start:stop].encode()[: position.column].decode(errors="ignore"))
        return min(start + characters, len(self.text))

    def line(self, line: int, files: SourceFiles) -> int:
        """Return the line of the file at which a line of the text begins."""
        return files.position(self.end_of(self.index(Position(line, 0)))).line

    def place(self, span: Range, files: SourceFiles) -> Place:
        """Return where a range of the text stands. It is not empty, and in the file of its first character."""
        first, last = self.index(span.start), self.index(span.end)
        origin = self.end_of(first)
        stop = max((self.stops[index] for index in range(first, last) if self.stops[index] >= origin), default=origin)
        if files.path(stop) != files.path(origin) or (
            span.start.line == span.end.line and files.position(stop).line != files.position(origin).line
        ):
            # The range goes on in another literal or file, whose place has nothing to do with this one.
            on_line = [at for at in self.stops[first:last] if files.path(at) == files.path(origin)]
            line = files.position(origin).line
            stop = max((at for at in on_line if files.position(at).line == line), default=origin)
        return files.place(origin, stop)


def inserted(text: MappedText, origin: int, stop: int) -> MappedText:
    """Return a text that stands for a placeholder: of one line it stems from the placeholder, else from itself."""
    if "\n" in text.text:
        return text
    return MappedText.constant(text.text, origin, stop)


def joined(parts: Iterable[MappedText]) -> MappedText:
    """Return texts one after the other."""
    parts = list(parts)
    origins, stops = array("Q"), array("Q")
    for part in parts:
        origins.extend(part.origins)
        stops.extend(part.stops)
    return MappedText("".join(part.text for part in parts), origins, stops, parts[-1].end if parts else 0)

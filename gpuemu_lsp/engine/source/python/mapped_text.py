"""Text with an origin for each character.

A string of a program need not stand in its file as it is: escape sequences are shorter than their spelling, adjacent
literals are joined, ``textwrap.dedent`` removes columns. Findings have positions in the text that the compiler saw; the
origins lead them back to the line and column of the ``.py``.
"""

from __future__ import annotations

import textwrap
from array import array
from bisect import bisect_right
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from gpuemu_lsp.engine.findings import Position, Range


@dataclass(frozen=True)
class MappedText:
    """A text whose character ``i`` stands at byte ``origins[i]`` of a file; ``end`` is the byte after the last one."""

    text: str
    origins: array[int]
    end: int

    @staticmethod
    def constant(text: str, origin: int, end: int) -> MappedText:
        """Return a text all of whose characters stem from one place, such as a constant in an f-string."""
        return MappedText(text, array("Q", [origin] * len(text)), end)

    def cut(self, start: int, stop: int) -> MappedText:
        """Return the characters from ``start`` to ``stop``."""
        return MappedText(self.text[start:stop], self.origins[start:stop], self.end_of(stop))

    def end_of(self, stop: int) -> int:
        """Return the byte at which the character ``stop`` begins, or the end of the text."""
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

    def stripped(self, left: bool = True, right: bool = True) -> MappedText:
        """Apply ``str.strip``, ``lstrip`` or ``rstrip`` without arguments."""
        start = len(self.text) - len(self.text.lstrip()) if left else 0
        stop = len(self.text.rstrip()) if right else len(self.text)
        return self.cut(start, max(start, stop))

    def replaced(self, old: str, new: str) -> MappedText:
        """Apply ``str.replace``; the new characters stem from the place of the old ones."""
        if not old:
            return self
        parts = []
        start = 0
        while (found := self.text.find(old, start)) >= 0:
            parts += [
                self.cut(start, found),
                MappedText.constant(new, self.origins[found], self.end_of(found + len(old))),
            ]
            start = found + len(old)
        return joined([*parts, self.cut(start, len(self.text))])

    def aligned(self, lines: FileLines) -> MappedText:
        """Insert line breaks so that each line has the number of its line in the file, as far as line breaks can.

        Messages and debug information then have the line numbers of the file. Nothing is inserted after a backslash:
        the line of a macro goes on in the next one.
        """
        parts: list[MappedText] = []
        number = 0
        starts = [*self._line_starts, len(self.text)]
        for start, stop in pairwise(starts):
            missing = lines.position(self.end_of(start)).line - number
            if missing > 0 and not self.text[:start].endswith(("\\\n", "\\\r\n")):
                parts.append(MappedText.constant("\n" * missing, self.end_of(start), self.end_of(start)))
                number += missing
            parts.append(self.cut(start, stop))
            number += 1
        whole = joined(parts)
        return MappedText(whole.text, whole.origins, self.end)

    @cached_property
    def _line_starts(self) -> list[int]:
        starts = [0]
        for index, character in enumerate(self.text):
            if character == "\n":
                starts.append(index + 1)
        return starts

    def origin(self, position: Position, lines: FileLines) -> Position:
        """Return where a position of the text stands in the file."""
        if position.line >= len(self._line_starts):
            return lines.position(self.end)
        start = self._line_starts[position.line]
        stop = self._line_starts[position.line + 1] if position.line + 1 < len(self._line_starts) else len(self.text)
        # The column counts UTF-8 bytes.
        characters = len(self.text[start:stop].encode()[: position.column].decode(errors="ignore"))
        return lines.position(self.end_of(min(start + characters, len(self.text))))

    def origin_range(self, span: Range, lines: FileLines) -> Range:
        """Return where a range of the text stands in the file; it is never empty there."""
        start, end = self.origin(span.start, lines), self.origin(span.end, lines)
        # After a line break the next character may stem from another literal, lines below.
        if end <= start or (span.end.line == span.start.line and end.line != start.line):
            end = Position(start.line, start.column + max(span.end.column - span.start.column, 1))
        return Range(start, end)


def joined(parts: Iterable[MappedText]) -> MappedText:
    """Return texts one after the other."""
    parts = list(parts)
    origins = array("Q")
    for part in parts:
        origins.extend(part.origins)
    return MappedText("".join(part.text for part in parts), origins, parts[-1].end if parts else 0)


class FileLines:
    """The lines of a file: converts byte offsets to positions."""

    def __init__(self, data: bytes) -> None:
        self._starts = [0, *(index + 1 for index, byte in enumerate(data) if byte == 0x0A)]

    def position(self, offset: int) -> Position:
        """Return the 0-based line and column of a byte."""
        line = bisect_right(self._starts, offset) - 1
        return Position(line, offset - self._starts[line])

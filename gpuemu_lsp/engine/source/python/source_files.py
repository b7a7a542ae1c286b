"""The files from which a text was put together; an origin is a byte of one of them."""

from __future__ import annotations

from bisect import bisect_right

from gpuemu_lsp.engine.findings import Place, Position, Range

_BITS = 40
"""Bits of the offset in an origin; the number of the file is above them."""


class SourceFiles:
    """Converts origins to lines and columns. The first file is the ``.py`` that was read."""

    def __init__(self) -> None:
        self._paths: list[str] = []
        self._line_starts: list[list[int]] = []

    def add(self, path: str, data: bytes) -> int:
        """Add a file that is not there yet; return the origin of its first byte."""
        if path in self._paths:
            return self._paths.index(path) << _BITS
        self._paths.append(path)
        self._line_starts.append([0, *(index + 1 for index, byte in enumerate(data) if byte == 0x0A)])
        return (len(self._paths) - 1) << _BITS

    def path(self, origin: int) -> str:
        """Return the absolute path of the file of an origin."""
        return self._paths[origin >> _BITS]

    def position(self, origin: int) -> Position:
        """Return the 0-based line and column, in bytes, of an origin."""
        starts, offset = self._line_starts[origin >> _BITS], origin & ((1 << _BITS) - 1)
        line = bisect_right(starts, offset) - 1
        return Position(line, offset - starts[line])

    def place(self, start: int, stop: int) -> Place:
        """Return the place from one origin to another one of the same file and line, at least one column."""
        first, last = self.position(start), self.position(stop)
        if last <= first:
            last = Position(first.line, first.column + 1)
        return Place(self.path(start), Range(first, last))

    def in_first(self, origin: int) -> bool:
        """Return whether an origin is in the ``.py`` that was read."""
        return origin >> _BITS == 0

"""Mapping of PTX source locations to ranges in the user's files.

A ``.loc`` inside a CUDA header does not help the user: a finding is placed on the innermost line of the user's own
code, and the outer calls of the inlining chain become related locations.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Place, Range, Related
from gpuemu_lsp.engine.ptx.model import Location, inlining_chain


@dataclass(frozen=True, slots=True)
class SourceMap:
    """Source files of one PTX module.

    ``files`` has their paths by ``.file`` number. ``text_of`` returns the text of a file by path, None for a file that
    is not the user's. ``fallback`` is used where no location is known, usually the kernel's name. ``python``: a ``.py``
    has kernels in Python; otherwise the text of one is the CUDA code in its strings.
    """

    files: Mapping[int, str]
    text_of: Callable[[str], str | None]
    fallback: Place
    python: bool = True

    def place(self, location: Location | None) -> tuple[Place, tuple[Related, ...]]:
        """Return the innermost user place of ``location`` and those it is inlined at; the fallback if there is none."""
        chain = [place for place in map(self.user_place, inlining_chain(location)) if place is not None]
        if not chain:
            return self.fallback, ()
        related = tuple(Related(place, "inlined here") for place in chain[1:] if place != chain[0])
        return chain[0], related

    def known(self, location: Location | None) -> Place | None:
        """Return the innermost user place of ``location``, None if there is none."""
        return next((place for place in map(self.user_place, inlining_chain(location)) if place is not None), None)

    def user_place(self, location: Location) -> Place | None:
        """Return the place of one location without its call sites, None if it is not in the user's code."""
        path = self.files.get(location.file)
        text = self.text_of(path) if path is not None else None
        if path is None or text is None:
            return None
        python = self.python and path.endswith(".py")
        return Place(path, statement_range(text, location.line - 1, location.column - 1, python=python))


def statement_range(text: str, line: int, column: int, *, python: bool = False) -> Range:
    """Return the range from a position to the end of its statement on that line.

    ``line`` and ``column`` are 0-based, the column in UTF-8 bytes. The range excludes comments, the semicolon and
    trailing white space. ``python``: the text is Python, where ``//`` is an operator.
    """
    lines = text.encode().split(b"\n")
    if not 0 <= line < len(lines):
        return Range.of(max(line, 0), 0, max(line, 0), 1)
    raw = lines[line].rstrip()
    start = column if 0 < column < len(raw) else len(raw) - len(raw.lstrip())
    end = _python_end(raw, start) if python else _statement_end(raw, start)
    return Range.of(line, start, line, max(end, start + 1))


def _python_end(raw: bytes, start: int) -> int:
    quote = b""
    for index in range(start, len(raw)):
        sign = raw[index : index + 1]
        if quote:
            quote = b"" if sign == quote else quote
        elif sign in (b"'", b'"'):
            quote = sign
        elif sign == b"#":
            return len(raw[:index].rstrip())
    return len(raw)


def _statement_end(raw: bytes, start: int) -> int:
    # Depth of parentheses: the semicolons of a `for` header do not end it.
    depth = 0
    for index in range(start, len(raw)):
        sign = raw[index : index + 1]
        if raw[index : index + 2] in (b"//", b"/*") or (sign == b";" and depth <= 0):
            return len(raw[:index].rstrip())
        if sign in b"([":
            depth += 1
        elif sign in b")]":
            depth -= 1
        elif sign in b"{}" and depth <= 0 and index > start:
            return len(raw[:index].rstrip())
    return len(raw)

"""Text measured in terminal cells: wide East Asian characters take two, combining characters none, tabs up to four."""

from __future__ import annotations

import unicodedata

_TAB = 4
_ELLIPSIS = "..."


def cells(text: str) -> int:
    """Return the width of ``text`` on a terminal, in cells (Unicode Annex 11)."""
    return sum(map(_cells_of, text))


def expand(text: str) -> str:
    """Replace tabs by spaces up to the next tab stop, and other control characters by one space each."""
    parts: list[str] = []
    column = 0
    for character in text:
        if character == "\t":
            character = " " * (_TAB - column % _TAB)
        elif unicodedata.category(character) == "Cc":
            character = " "
        parts.append(character)
        column += cells(character)
    return "".join(parts)


def cut(text: str, width: int) -> str:
    """Return ``text`` cut to at most ``width`` cells, with an ellipsis if anything is missing."""
    if cells(text) <= width:
        return text
    return _take(text, width - len(_ELLIPSIS)) + _ELLIPSIS if width > len(_ELLIPSIS) else _take(text, width)


def frame(line: str, start: int, end: int, width: int) -> tuple[str, str]:
    """Return a line of code as displayed, and the carets under one part of it.

    Parameters
    ----------
    line : str
        The line without its line end.
    start, end : int
        The part to underline, in characters; an empty part gets one caret.
    width : int
        Available cells. A longer line is cut around the part.
    """
    indent = len(line) - len(line.lstrip())
    if start >= indent:
        line, start, end = line[indent:], start - indent, end - indent
    line = line.rstrip()
    start = min(start, len(line))
    end = max(start, min(end, len(line)))
    before, part, after = expand(line[:start]), line[start:end], line[end:]
    shown = expand(before + part + after)
    part = shown[len(before) : len(expand(before + part))]
    after = shown[len(before) + len(part) :]
    if cells(shown) > width:
        before = _tail(before, width // 3)
        available = width - cells(before)
        after = cut(after, available - cells(part)) if cells(part) <= available else ""
        part = cut(part, available)
    return before + part + after, " " * cells(before) + "^" * max(1, cells(part))


def _cells_of(character: str) -> int:
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def _take(text: str, width: int) -> str:
    taken, used = [], 0
    for character in text:
        used += _cells_of(character)
        if used > width:
            break
        taken.append(character)
    return "".join(taken)


def _tail(text: str, width: int) -> str:
    if cells(text) <= width:
        return text
    return _ELLIPSIS + _take(text[::-1], width - len(_ELLIPSIS))[::-1]

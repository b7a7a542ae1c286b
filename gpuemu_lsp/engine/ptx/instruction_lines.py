"""Source lines of the instructions in PTX and SASS, read from the text itself.

``.loc`` directives in PTX (PTX ISA, "Debugging Directives"), the comments of ``nvdisasm -g`` in SASS.
"""

from __future__ import annotations

import os
import re

_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+\d+")
_SASS_LINE = re.compile(r'\s*//## File "([^"]+)", line (\d+)')
_SASS_CODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/")


def ptx_lines(text: str, path: str) -> list[tuple[int, int, int]]:
    """Return ``(source line, first, last)`` of each run of PTX lines from one line of ``path``; 0-based."""
    files = {int(match[1]): match[2] for match in _FILE.finditer(text)}
    spans: list[tuple[int, int, int]] = []
    current: int | None = None
    for number, line in enumerate(text.split("\n")):
        match = _LOC.match(line)
        if match:
            current = int(match[2]) - 1 if _same(files.get(int(match[1]), ""), path) else None
        elif current is not None and line.strip().endswith(";"):
            _extend(spans, current, number)
        if line.startswith("}"):
            current = None
    return spans


def sass_lines(text: str, path: str) -> list[tuple[int, int, int]]:
    """Return ``(source line, first, last)`` as :func:`ptx_lines`, for the output of ``nvdisasm -g``."""
    spans: list[tuple[int, int, int]] = []
    current: int | None = None
    for number, line in enumerate(text.split("\n")):
        match = _SASS_LINE.match(line)
        if match:
            current = int(match[2]) - 1 if _same(match[1], path) else None
        elif current is not None and _SASS_CODE.match(line):
            _extend(spans, current, number)
    return spans


def source_of(text: str, line: int) -> tuple[str, int] | None:
    """Return file and 0-based source line of the instruction on a 0-based line of PTX or SASS.

    The last ``.loc`` or ``//## File`` at or above it in the same function applies. None where there is none.
    """
    lines = text.split("\n")[: line + 1]
    for above, content in enumerate(reversed(lines)):
        if (match := _LOC.match(content)) is not None:
            files = {int(found[1]): found[2] for found in _FILE.finditer(text)}
            name = files.get(int(match[1]))
            return (name, int(match[2]) - 1) if name is not None else None
        if (match := _SASS_LINE.match(content)) is not None:
            return match[1], int(match[2]) - 1
        if above and content.startswith(("}", "{")):
            return None
    return None


def _extend(spans: list[tuple[int, int, int]], line: int, number: int) -> None:
    if spans and spans[-1][0] == line and spans[-1][2] == number - 1:
        spans[-1] = (line, spans[-1][1], number)
    else:
        spans.append((line, number, number))


def _same(one: str, other: str) -> bool:
    return os.path.normpath(one) == os.path.normpath(other)

"""Source lines of the instructions in PTX and SASS, read from the text itself.

``.loc`` directives in PTX (PTX ISA, "Debugging Directives"), the comments of ``nvdisasm -gi`` in SASS: one for
each function of an inlining chain, the innermost first.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection

from gpuemu_lsp.engine.ptx.locations import LocationReader
from gpuemu_lsp.engine.ptx.model import Location

_FILE = re.compile(r'^\s*\.file\s+(\d{1,9})\s+"((?:[^"\\\n]|\\.)*)"', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d{1,9})\s+(\d{1,9})\s+\d{1,9}")
_SASS_LINE = re.compile(r'\s*//## File "([^"]+)", line (\d+)')
_SASS_CODE = re.compile(r"^\s*/\*[0-9a-f]{4,}\*/")


def ptx_lines(text: str, path: str) -> list[tuple[int, int, int]]:
    """Return ``(source line, first, last)`` of each run of PTX lines from one line of ``path``; 0-based.

    An instruction that a function of another file inlined is on the line of ``path`` that calls it.
    """
    reader = LocationReader(text)
    for match in _FILE.finditer(text):
        reader.file(match[0].strip())
    own = {index for index, name in reader.files.items() if _same(name, path)}
    spans: list[tuple[int, int, int]] = []
    current: int | None = None
    for number, line in enumerate(text.split("\n")):
        if _LOC.match(line):
            reader.loc(line.strip())
            current = _line_in(reader.current, own)
        elif current is not None and line.strip().endswith(";"):
            _extend(spans, current, number)
        if line.startswith("}"):
            current = None
            reader.start_function()
    return spans


def _line_in(location: Location | None, files: Collection[int]) -> int | None:
    """Return the 0-based line of the innermost location of an inlining chain in one of ``files``."""
    while location is not None and location.file not in files:
        location = location.inlined_at
    return location.line - 1 if location is not None else None


def sass_lines(text: str, path: str) -> list[tuple[int, int, int]]:
    """Return ``(source line, first, last)`` as :func:`ptx_lines`, for the output of ``nvdisasm -gi``."""
    spans: list[tuple[int, int, int]] = []
    current: int | None = None
    in_chain = False
    for number, line in enumerate(text.split("\n")):
        match = _SASS_LINE.match(line)
        if match:
            current = current if in_chain else None
            if current is None and _same(match[1], path):
                current = int(match[2]) - 1
        elif current is not None and _SASS_CODE.match(line):
            _extend(spans, current, number)
        in_chain = match is not None
    return spans


def source_of(text: str, line: int) -> tuple[str, int] | None:
    """Return file and 0-based source line of the instruction on a 0-based line of PTX or SASS.

    The last ``.loc`` or ``//## File`` at or above it in the same function applies, that of the innermost inlined
    function. None where there is none.
    """
    lines = text.split("\n")[: line + 1]
    for above, content in enumerate(reversed(lines)):
        if (match := _LOC.match(content)) is not None:
            files = {int(found[1]): found[2] for found in _FILE.finditer(text)}
            name = files.get(int(match[1]))
            return (name, int(match[2]) - 1) if name is not None else None
        if (match := _SASS_LINE.match(content)) is not None:
            first = line - above
            while first > 0 and (outer := _SASS_LINE.match(lines[first - 1])) is not None:
                first, match = first - 1, outer
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

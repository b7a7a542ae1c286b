"""Source locations: ``.loc`` with its inlining chain, ``.file``, and function names in ``.debug_str``.

PTX ISA section 11.5. ``.loc ... inlined_at`` identifies the call site by file, line and column only; the chain of that
site is the one of the latest ``.loc`` for it, which has to precede.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuemu_lsp.engine.ptx.errors import UnlocatedSyntaxError, shown
from gpuemu_lsp.engine.ptx.model import Location

_LOC = re.compile(
    r"\.loc\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9})"
    r"(?:\s*,\s*function_name\s+([\w$.]+)(?:\s*\+\s*(\d{1,9}))?\s*,\s*inlined_at\s+(\d{1,9})\s+(\d{1,9})\s+(\d{1,9}))?",
    re.ASCII,
)
_FILE = re.compile(r'\.file\s+(\d{1,9})\s+"((?:[^"\\\n]|\\.)*)"', re.ASCII)
_ESCAPE = re.compile(r"\\([0-7]{1,3}|.)", re.ASCII)
_STRINGS = re.compile(r"\.section\s+\.debug_str\s*\{([^}]*)\}")
_LABEL_OR_BYTES = re.compile(r"([\w$.]+)\s*:|\.b8\s+([\d\s,]+)", re.ASCII)
_DEEPEST = 64


class LocationReader:
    """State of ``.loc`` and ``.file`` directives while a text is read in order."""

    def __init__(self, text: str) -> None:
        self.files: dict[int, str] = {}
        self.current: Location | None = None
        self._data, self._labels = _debug_strings(text)
        self._latest: dict[tuple[str, str, str], Location] = {}
        self._made: dict[str, Location] = {}

    def start_function(self) -> None:
        """Forget the locations of the previous function."""
        self.current = None
        self._latest.clear()
        self._made.clear()

    def file(self, text: str) -> None:
        """Read a ``.file`` directive.

        Raises
        ------
        SyntaxProblem
            If it is malformed.
        """
        match = _FILE.match(text)
        if match is None:
            raise UnlocatedSyntaxError(f'expected .file INDEX "NAME", found {shown(text)}')
        self.files[int(match[1])] = _unescaped(match[2])

    def loc(self, text: str) -> None:
        """Read a ``.loc`` directive, the location of the following instructions.

        Raises
        ------
        SyntaxProblem
            If it is malformed.
        """
        match = _LOC.match(text)
        if match is None:
            raise UnlocatedSyntaxError(f"expected .loc FILE LINE COLUMN, found {shown(text)}")
        file, line, column, label, plus, *site = match.groups()
        outer = self._call_site(site[0], site[1], site[2]) if label else None
        if not int(line):  # code merged from several lines: the call site if known, else the previous location
            self.current = outer or self.current
            if self.current is not None:
                self._latest[(file, line, column)] = self.current
            return
        location = self._made.get(text)
        # Recursion that is inlined into itself has its own location as call site; the chain must not grow each time.
        if location is None or (location.inlined_at is not outer and location is not outer):
            name = self._name(label, plus) if label else None
            location = self._made[text] = Location(int(file), int(line), int(column), name, outer)
        self.current = self._latest[(file, line, column)] = location

    def _call_site(self, file: str, line: str, column: str) -> Location:
        key = (file, line, column)
        site = self._latest.get(key)
        if site is None or _depth(site) >= _DEEPEST:
            site = self._latest[key] = Location(int(file), int(line), int(column))
        return site

    def _name(self, label: str, plus: str | None) -> str | None:
        start = self._labels.get(label)
        if start is None:
            return None
        start += int(plus or 0)
        end = self._data.find(b"\0", start)
        name = self._data[start : end if end >= 0 else None]
        return name.decode("utf-8", "replace") or None


def _depth(location: Location) -> int:
    depth, outer = 1, location.inlined_at
    while outer is not None:
        depth, outer = depth + 1, outer.inlined_at
    return depth


def _debug_strings(text: str) -> tuple[bytes, Mapping[str, int]]:
    """Return the bytes of the ``.debug_str`` section and the offsets of its labels; its own name is offset 0."""
    data = bytearray()
    labels = {".debug_str": 0}
    section = _STRINGS.search(text) if ".debug_str" in text else None
    if section is not None:
        for label, numbers in _LABEL_OR_BYTES.findall(section[1]):
            if label:
                labels[label] = len(data)
            else:
                data.extend(int(number) & 0xFF for number in numbers.replace(",", " ").split() if len(number) < 4)
    return bytes(data), labels


def _unescaped(text: str) -> str:
    """Undo C escapes of a file name: octal bytes of UTF-8, backslashes, quotes."""
    if "\\" not in text:
        return text
    raw = _ESCAPE.sub(lambda match: chr(int(match[1], 8) & 0xFF) if match[1][0] in "01234567" else match[1], text)
    try:
        return raw.encode("latin-1").decode("utf-8")
    except UnicodeError:
        return raw

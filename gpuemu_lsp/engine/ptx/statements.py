"""Cut PTX text into statements: the only place that knows comments, strings and where a statement ends."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.S)
_PIECE = re.compile(
    r"""\s*(?:
      (?P<label>[A-Za-z_$%][\w$]*)\s*:(?!:)
    | (?P<open>\{)
    | (?P<close>\})
    | (?P<section>\.section\s+[.\w]+\s*\{[^}]*\})
    | (?P<line>\.(?:loc|file|pragma|version|target|address_size)\b[^\n;{]*[;\n]?)
    | (?P<head>(?:\.(?:visible|extern|weak|common)\s+)*\.(?:entry|func)\b[^;{]*?)(?=[;{])
    | (?P<statement>[^;]*?);
    )""",
    re.X | re.S,
)


@dataclass(frozen=True, slots=True)
class Statement:
    """One piece of PTX. ``kind`` is label, open, close, section, line, head or statement; ``line`` is 0-based."""

    kind: str
    text: str
    line: int


class PtxError(ValueError):
    """PTX that cannot be read; ``line`` is the 0-based line in the text."""

    def __init__(self, message: str, line: int) -> None:
        super().__init__(f"line {line + 1}: {message}")
        self.line = line


def statements(text: str) -> Iterator[Statement]:
    """Yield the statements of a PTX text in order.

    Raises
    ------
    PtxError
        If the text ends inside a statement.
    """
    clean = _COMMENT.sub(lambda match: "\n" * match.group().count("\n"), text) if "//" in text or "/*" in text else text
    position, line, length = 0, 0, len(clean)
    match = _PIECE.match
    while True:
        found = match(clean, position)
        if found is None:
            rest = clean[position:].strip("\x00 \t\r\n")
            if rest:
                line += clean.count("\n", position, length - len(clean[position:].lstrip()))
                raise PtxError(f"this does not end: {rest.splitlines()[0][:60]!r}", line)
            return
        kind = found.lastgroup
        assert kind is not None
        start = found.start(kind)
        line += clean.count("\n", position, start)
        yield Statement(kind, found.group(kind), line)
        line += clean.count("\n", start, found.end())
        position = found.end()

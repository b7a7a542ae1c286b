"""Statements of a PTX text; comments and strings are handled here only."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuemu_lsp.engine.ptx.errors import PtxError, shown

_COMMENT_OR_STRING = re.compile(r'"(?:[^"\\\n]|\\.)*"|//[^\n]*|/\*.*?(?:\*/|\Z)', re.S)

# Alternatives in order of frequency, except where one would also match a prefix of another.
STATEMENT = re.compile(
    r"""\s*(?:
      (?P<instruction>
        (?:@\s*(?P<negated>!?)\s*(?P<guard>[%\w$]+)\s+)?
        (?P<opcode>[a-z]\w*(?:\s*\.\w+(?:::\w+)*)*) (?!\s*:) (?![\w.$]) (?P<operands>[^;"]*) ;)
    | (?P<loc>\.loc\b[^\n;]*;?)
    | (?P<label>[A-Za-z_$%][\w$]*)\s*:(?!:)
    | (?P<open>\{)
    | (?P<close>\})
    | (?P<end>;)
    | (?P<head>(?:\.(?:visible|extern|weak|common)\s+)*\.(?:entry|func)\b[^;{}"]*)
    | (?P<section>\.section\b[^{};]*\{[^}]*\})
    | (?P<file>\.file\b[^"\n;]*"(?:[^"\\\n]|\\.)*"[^\n;]*;?)
    | (?P<pragma>\.pragma\b\s*"(?:[^"\\\n]|\\.)*"(?:\s*,\s*"(?:[^"\\\n]|\\.)*")*\s*;)
    | (?P<header>\.(?:version|target|address_size)\b[^\n;{}"]*;?)
    | (?P<declaration>\.[a-z][^;"]*) ;
    )""",
    re.X | re.ASCII,
)


def statements(text: str) -> Iterator[tuple[str, re.Match[str], int]]:
    """Yield (kind, match, 0-based line) of each statement from top to bottom. Kinds are the outer groups of STATEMENT.

    Raises
    ------
    PtxError
        At text that begins no statement, or at an unterminated statement.
    """
    text = _COMMENT_OR_STRING.sub(_blanked, text)
    position = line = 0
    match_at = STATEMENT.match
    count = text.count
    while match := match_at(text, position):
        kind = match.lastgroup or "end"
        start = match.start(kind)
        line += count("\n", position, start)
        yield kind, match, line
        position = match.end()
        line += count("\n", start, position)
    rest = text[position:].lstrip()
    if rest.strip("\0"):
        line += count("\n", position, len(text) - len(rest))
        expected = "expected ';' after" if ";" not in rest else "expected a statement, found"
        raise PtxError(f"{expected} {shown(rest.splitlines()[0])}", line)


def _blanked(match: re.Match[str]) -> str:
    """Keep strings; replace a comment by a space and its line breaks."""
    found = match.group()
    return found if found[0] == '"' else " " + "\n" * found.count("\n")

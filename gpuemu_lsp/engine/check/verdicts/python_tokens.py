"""Tokens of a Python file: what of its text decides a verdict, and positions that move with the code.

Comments and blank lines are not tokens, but for the comments that this product reads. Two texts with equal tokens that
begin their lines alike have the same syntax tree, and instructions share lines in one as they do in the other.
"""

from __future__ import annotations

import hashlib
import io
import tokenize
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from gpuemu_lsp.engine.findings import Position

_MARK = "gpuemu:"
"""Begins what a comment says to this product: comments with it are tokens."""


@dataclass(frozen=True, slots=True)
class TokenPosition:
    """A position in a token: the token's number, and lines and UTF-8 bytes from its start; of a later line, from 0."""

    token: int
    lines: int
    columns: int


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """The tokens of a text: their positions, and a digest that is equal for texts that run alike."""

    starts: tuple[Position, ...]
    ends: tuple[Position, ...]
    digest: str

    @staticmethod
    @lru_cache(maxsize=4)
    def of(text: str) -> TokenizedText | None:
        """Return the tokens of a text, None if Python cannot read it."""
        parts: list[str] = []
        starts: list[Position] = []
        ends: list[Position] = []
        try:
            for token in _tokens(text):
                begins = not starts or ends[-1].line != token.start[0] - 1
                parts.append(repr((token.type, token.string, begins)))
                starts.append(_position(token.line, token.start, token.start[0]))
                ends.append(_position(token.line, token.end, token.start[0]))
        except (tokenize.TokenError, SyntaxError):
            return None
        digest = hashlib.blake2b("".join(parts).encode("utf-8", "surrogatepass"), digest_size=20)
        return TokenizedText(tuple(starts), tuple(ends), digest.hexdigest())

    def anchor(self, position: Position) -> TokenPosition | None:
        """Return a position relative to the token that it begins, ends, or is in; None if it is in none."""
        number = bisect_right(self.starts, position) - 1
        if number < 0 or position > self.ends[number]:
            return None
        start = self.starts[number]
        lines = position.line - start.line
        return TokenPosition(number, lines, position.column if lines else position.column - start.column)

    def position(self, anchor: TokenPosition) -> Position:
        """Return the position of an anchor of a text with the same digest."""
        start = self.starts[anchor.token]
        column = anchor.columns if anchor.lines else start.column + anchor.columns
        return Position(start.line + anchor.lines, column)


def _tokens(text: str) -> Iterator[tokenize.TokenInfo]:
    for token in tokenize.generate_tokens(io.StringIO(text, newline="").readline):
        if token.type == tokenize.COMMENT and _MARK not in token.string:
            continue
        # Of the indentation only the change of level counts, which its own tokens show without their text.
        if token.type in (tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.NEWLINE, tokenize.ENDMARKER):
            token = token._replace(string="", start=token.end, end=token.end)
            if token.type == tokenize.NL:
                continue
        yield token


def _position(line: str, at: tuple[int, int], first: int) -> Position:
    """Return a position of a token as 0-based line and UTF-8 byte column; ``line`` is all lines of the token."""
    if at[0] == first and at[1] < len(line) and line.isascii():
        return Position(at[0] - 1, at[1])
    rows = line.split("\n")
    row = rows[at[0] - first] if at[0] - first < len(rows) else ""
    return Position(at[0] - 1, len(row[: at[1]].encode("utf-8", "surrogatepass")))

"""Text with comments and literals blanked, its preprocessor directives, and bracket matching.

All callers work with byte offsets. A text is held as its UTF-8 bytes decoded as Latin-1, one character per byte, so
that an index into a ``str`` (and a match of ``re``) is a byte offset.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from copy import copy
from dataclasses import dataclass
from functools import cached_property

from gpuemu_lsp.engine.findings import Position, Range
from gpuemu_lsp.engine.source.memo import Memo

WORD = re.compile(r"[A-Za-z_\x80-\xff][\w\x80-\xff]*")
"""An identifier in a Latin-1 decoded text; bytes of UTF-8 sequences are letters."""

_NOISE = re.compile(
    r"""//(?:[^\n\\]|\\\r?\n|\\.)*"""  # a comment may be continued by a backslash
    r"""|/\*.*?(?:\*/|\Z)"""
    r"""|(?:\b(?:u8|[uUL])?R)"(?P<mark>[^()\\\s]{0,16})\(.*?\)(?P=mark)\""""
    r"""|\b\d(?:'?[\w.])*"""  # a number: a digit separator is not a quote
    r"""|"(?:[^"\\\n]|\\.)*"|'(?:[^'\\\n]|\\.)*'""",
    re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(\w*)((?:[^\n\\]|\\\r?\n|\\.)*)", re.MULTILINE)
_NOT_ASCII = re.compile(r"[\x1c-\x1f\x80-\xfe]")
_BYTE_ORDER_MARK = "\xef\xbb\xbf"
_OPEN_RAW_STRING = re.compile(r"\b(?:u8|[uUL])?R\"")
_EMPTY_LINE = re.compile(r"\n\r?\n")
_BLOCK_BYTES = 1500
"""Least size of a block. An edit costs one block, and every reading a lookup of each."""
_SEARCHED_BYTES = 16_000
_NOT_NEWLINE = re.compile(r"[^\r\n]")
_SPACED_LAUNCH = re.compile(r"<<(\s*)<([^;{}]*?)>>(\s*)>(?=\s*\()")
"""A launch of which a formatter has split the brackets, as nvcc accepts it: ``scale << <grid, block>> >(x)``."""
_BRACKET = re.compile(r"[()\[\]{}]")
_CLOSER = {"(": ")", "[": "]", "{": "}"}


@dataclass(frozen=True, slots=True)
class Directive:
    """A preprocessor directive with its continuation lines.

    ``#define N 4`` has the kind "define" and the body "N 4".
    """

    kind: str
    body: str
    start: int
    end: int


class SourceText:
    """A source text in four forms of equal length, addressed by byte offset.

    Attributes
    ----------
    raw
        The text, one character per UTF-8 byte.
    clean
        ``raw`` with comments and the contents of literals blanked, and every byte outside of ASCII one letter.
    directives
        The preprocessor directives in order.
    code
        ``clean`` with the directives blanked as well: the input of the compiler after preprocessing, macros unexpanded.
    blocks
        Offsets of the ends of blocks: runs of lines that end outside of comments, literals and directives.
    """

    def __init__(self, text: str) -> None:
        self.raw = text.encode("utf-8", "surrogatepass").decode("latin-1")
        clean, code, directives, ends = [], [], [], []
        for start, block in _blocks(self.raw):
            clean.append(block.clean)
            code.append(block.code)
            directives += [
                Directive(directive.kind, directive.body, directive.start + start, directive.end + start)
                for directive in block.directives
            ]
            ends.append(start + len(block.clean))
        self.clean, self.code = "".join(clean), "".join(code)
        self.directives, self.blocks = tuple(directives), tuple(ends)

    def without(self, dead: Sequence[tuple[int, int]]) -> SourceText:
        """Return this text with the inactive regions ``dead`` removed from ``code`` and ``directives``."""
        if not dead:
            return self
        other = copy(self)
        starts = [start for start, _ in dead]
        other.directives = tuple(
            directive
            for directive in self.directives
            if (region := bisect_right(starts, directive.start)) == 0 or directive.end > dead[region - 1][1]
        )
        other.code = blank(self.code, dead)
        return other

    @cached_property
    def _starts(self) -> list[int]:
        return [0, *(match.end() for match in re.finditer("\n", self.raw))]

    def range(self, start: int, end: int) -> Range:
        """Return two byte offsets as a range."""
        line, end_line = (bisect_right(self._starts, offset) - 1 for offset in (start, end))
        return Range.of(line, start - self._starts[line], end_line, end - self._starts[end_line])

    def offset(self, position: Position) -> int:
        """Return the byte offset of a position, that of the end if it is behind the text."""
        if position.line >= len(self._starts):
            return len(self.raw)
        return min(self._starts[position.line] + position.column, len(self.raw))

    def original(self, start: int, end: int) -> str:
        """Return the original text between two byte offsets."""
        return decode(self.raw[start:end])


_known_texts: Memo[SourceText] = Memo(8)


def source_text(text: str) -> SourceText:
    """Return the forms of a text, those of the last few texts without computing them again."""
    return _known_texts.get(text, lambda: SourceText(text))


@dataclass(frozen=True, slots=True)
class ItemText:
    """The code of one item, with ranges relative to its start."""

    code: str

    def range(self, start: int, end: int) -> Range:
        """Return two byte offsets as a range."""
        return Range(self._position(start), self._position(end))

    def _position(self, offset: int) -> Position:
        return Position(self.code.count("\n", 0, offset), offset - self.code.rfind("\n", 0, offset) - 1)


def moved(span: Range, origin: Position) -> Range:
    """Return a range that is relative to an item as one of the text in which the item starts at ``origin``."""
    return Range(*(_moved(position, origin) for position in (span.start, span.end)))


def _moved(position: Position, origin: Position) -> Position:
    column = position.column if position.line else position.column + origin.column
    return Position(position.line + origin.line, column)


@dataclass(frozen=True, slots=True)
class _Block:
    """The forms of a block; the directives are relative to its start."""

    clean: str
    code: str
    directives: tuple[Directive, ...]


_known_blocks: Memo[_Block | None] = Memo(1 << 12)


def _blocks(raw: str) -> Iterator[tuple[int, _Block]]:
    """Yield the blocks of a text with their offsets.

    The lexer starts every block in its initial state. A block in which a token may continue is therefore extended until
    it is complete; the last one ends at the end of the text, where an open comment ends too.
    """
    start = 0
    while start < len(raw):
        end = _end_of_block(raw, start, _BLOCK_BYTES)
        while (block := _lexed(raw[start:end], start == 0, end == len(raw))) is None:
            end = _end_of_block(raw, start, 2 * (end - start))
        yield start, block
        start = end


def _end_of_block(raw: str, start: int, least: int) -> int:
    """Return the end of a line with a brace at the margin, else of an empty line, that is not continued."""
    least += start
    position = least
    while (brace := raw.find("\n}", position, least + _SEARCHED_BYTES)) >= 0:
        position = raw.find("\n", brace + 1) + 1
        if position == 0:
            return len(raw)
        if not raw.endswith(("\\\n", "\\\r\n"), brace, position):
            return position
    empty = _EMPTY_LINE.search(raw, least)
    return empty.end() if empty is not None else len(raw)


def _lexed(raw: str, first: bool, last: bool) -> _Block | None:
    """Return the forms of a block; None if a token may continue behind it."""
    has_mark = first and raw.startswith(_BYTE_ORDER_MARK)
    return _known_blocks.get((raw, has_mark, last), lambda: _lex(raw, has_mark, last))


def _lex(raw: str, has_mark: bool, last: bool) -> _Block | None:
    end = 0

    def blank_noise(match: re.Match[str]) -> str:
        nonlocal end
        end = match.end()
        return _blank_noise(match)

    # str.isspace and \s accept 0x85 and 0xa0, which are bytes of UTF-8 sequences here: a letter replaces them all.
    clean = _NOT_ASCII.sub("\xff", _NOISE.sub(blank_noise, raw))
    if not last and (end == len(raw) or _OPEN_RAW_STRING.search(clean)):
        return None
    # A reader of files removes the byte order mark, but an editor may send it with the text. It is white space, or it
    # would be part of the first word.
    if has_mark:
        clean = " " * len(_BYTE_ORDER_MARK) + clean[len(_BYTE_ORDER_MARK) :]
    directives = tuple(
        Directive(match[1], match[2].strip(), match.start(), match.end()) for match in _DIRECTIVE.finditer(clean)
    )
    code = blank(clean, ((directive.start, directive.end) for directive in directives))
    if "<< <" in code or ">> >" in code:
        code = _SPACED_LAUNCH.sub(r"<<<\1\2>>>\3", code)
    return _Block(clean, code, directives)


_known_words: Memo[frozenset[str]] = Memo(1 << 14)


def words_of(code: str) -> frozenset[str]:
    """Return the identifiers in some code."""
    return _known_words.get(code, lambda: frozenset(WORD.findall(code)))


def decode(raw: str) -> str:
    """Decode a Latin-1 held text as UTF-8; an incomplete sequence becomes U+FFFD."""
    return raw.encode("latin-1").decode("utf-8", "replace")


def blank(raw: str, spans: Iterable[tuple[int, int]]) -> str:
    """Overwrite ascending spans with spaces; line breaks stay."""
    parts: list[str] = []
    position = 0
    for start, end in spans:
        parts += (raw[position:start], spaces(raw[start:end]))
        position = end
    parts.append(raw[position:])
    return "".join(parts)


def spaces(raw: str) -> str:
    """Return as many spaces as a text has bytes; line breaks stay."""
    if "\r" in raw:
        return _NOT_NEWLINE.sub(" ", raw)
    return "\n".join(" " * len(line) for line in raw.split("\n"))


def closing(code: str, start: int) -> int:
    """Return the offset after the bracket that closes the one at ``start``, or the end of the text."""
    stack: list[str] = []
    for match in _BRACKET.finditer(code, start):
        sign = match[0]
        if sign in _CLOSER:
            stack.append(_CLOSER[sign])
        elif sign in stack:
            # Unmatched brackets in between are skipped: a half-written line must not end the search at once.
            while stack.pop() != sign:
                pass
            if not stack:
                return match.end()
    return len(code)


def closing_angle(code: str, start: int) -> int | None:
    """Return the offset after the ``>`` that closes the ``<`` at ``start``; None where it is a comparison."""
    depth, position = 0, start
    while position < len(code):
        sign = code[position]
        if sign == "<":
            depth += 1
        elif sign == ">" and code[position - 1] != "-":
            # `>>` closes two lists since C++11; `->` closes none.
            depth -= 1
            if depth == 0:
                return position + 1
        elif sign in _CLOSER:
            position = closing(code, position)
            continue
        elif sign in ";)]}":
            return None
        position += 1
    return None


def opening_angle(code: str, end: int) -> int | None:
    """Return the offset of the ``<`` that the ``>`` before ``end`` closes, or None."""
    depth, brackets, position = 0, 0, end - 1
    while position >= 0:
        sign = code[position]
        if sign in ")]}":
            brackets += 1
        elif sign in "([{":
            brackets -= 1
            if brackets < 0:
                return None
        elif brackets == 0 and sign == ">":
            depth += 1
        elif brackets == 0 and sign == "<":
            depth -= 1
            if depth == 0:
                return position
        elif brackets == 0 and sign == ";":
            return None
        position -= 1
    return None


def split_top(code: str, separator: str = ",") -> list[tuple[int, int]]:
    """Return the spans between separators outside of all brackets, template brackets included, trimmed."""
    spans, start, position = [], 0, 0
    while position < len(code):
        sign = code[position]
        if sign in _CLOSER:
            position = closing(code, position)
        elif sign == "<" and (end := closing_angle(code, position)) is not None and _is_template(code, position):
            position = end
        else:
            if sign == separator:
                spans.append(_trim(code, start, position))
                start = position + 1
            position += 1
    spans.append(_trim(code, start, len(code)))
    return [span for span in spans if span[0] < span[1]]


def strip(code: str, start: int, end: int) -> tuple[int, int]:
    """Return the span without leading and trailing white space."""
    return _trim(code, start, end)


def _is_template(code: str, angle: int) -> bool:
    """Return whether ``<`` may open template arguments: it follows a name and is not ``<<`` or ``<=``."""
    start = end = len(code[:angle].rstrip())
    while start > 0 and (code[start - 1].isalnum() or code[start - 1] == "_"):
        start -= 1
    return start < end and not code[start].isdigit() and code[angle + 1 : angle + 2] not in ("<", "=")


def _trim(code: str, start: int, end: int) -> tuple[int, int]:
    part = code[start:end]
    first = start + len(part) - len(part.lstrip())
    return first, max(first, start + len(part.rstrip()))


def _blank_noise(match: re.Match[str]) -> str:
    found = match[0]
    if found[0].isdigit():
        return found
    if found[0] in "\"'" and len(found) > 1:
        # The quotes stay, so that a literal is still an expression: `extern "C"`, arguments.
        return found[0] + spaces(found[1:-1]) + found[-1]
    return spaces(found)

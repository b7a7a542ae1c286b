"""Parser of expressions: a subset of C without side effects, calls and types of the user."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from gpuemu_lsp.engine.element_types import element_type

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<float>(?:\d+\.\d*|\.\d+)(?:[eE][+-]?\d+)?[fF]?|\d+(?:[eE][+-]?\d+)[fF]?)"
    r"|(?P<int>0[xX][0-9a-fA-F]+|\d+)[uUlL]*"
    r"|'(?P<character>\\[nrtabfv0\\'\"]|[^'\\])'"
    r"|(?P<name>[A-Za-z_][\w$]*(?:::\w+)*)"
    r"|(?P<register>%[A-Za-z][\w.]*\w)"
    r"|(?P<sign><<|>>|<=|>=|==|!=|&&|\|\||->|[-+*/%&|^~!<>?:()\[\].]))"
)
_PRECEDENCE: Final = {
    "||": 1, "&&": 2, "|": 3, "^": 4, "&": 5, "==": 6, "!=": 6, "<": 7, ">": 7, "<=": 7, ">=": 7,
    "<<": 8, ">>": 8, "+": 9, "-": 9, "*": 10, "/": 10, "%": 10,
}  # fmt: skip
_UNARY: Final = ("-", "+", "!", "~", "*", "&")
_DEEPEST: Final = 100
_LONGEST: Final = 400
"""Tokens of an expression."""
_ESCAPES: Final = {"n": "\n", "r": "\r", "t": "\t", "a": "\a", "b": "\b", "f": "\f", "v": "\v", "0": "\0"}


class CExpressionError(ValueError):
    """An expression that cannot be read or has no value; the message is for the user."""


@dataclass(frozen=True, slots=True)
class CLiteral:
    """A literal."""

    value: int | float


@dataclass(frozen=True, slots=True)
class CName:
    """A variable."""

    text: str


@dataclass(frozen=True, slots=True)
class CUnary:
    """An operator before its operand, or a conversion ``(float)x`` with the type's name as ``sign``."""

    sign: str
    operand: Node


@dataclass(frozen=True, slots=True)
class CBinary:
    """An operator between two operands; ``[]`` is the access to an element."""

    sign: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class CConditional:
    """``condition ? first : second``."""

    condition: Node
    first: Node
    second: Node


@dataclass(frozen=True, slots=True)
class CMember:
    """``operand.name``, or ``operand->name``."""

    operand: Node
    name: str


Node: TypeAlias = "CLiteral | CName | CUnary | CBinary | CConditional | CMember"


def parse(text: str) -> Node:
    """Return the tree of an expression.

    Raises
    ------
    CExpressionError
        If it is not one.
    """
    parser = _Parser(text)
    node = parser.conditional()
    parser.end()
    return node


def names_in(node: Node) -> Iterator[str]:
    """Yield the names of variables in an expression."""
    match node:
        case CName(text):
            yield text
        case CUnary(_, operand) | CMember(operand, _):
            yield from names_in(operand)
        case CBinary(_, left, right):
            yield from (*names_in(left), *names_in(right))
        case CConditional(condition, first, second):
            yield from (*names_in(condition), *names_in(first), *names_in(second))


class _Parser:
    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str]] = []
        place = 0
        while text[place:].strip():
            match = _TOKEN.match(text, place)
            if match is None:
                raise CExpressionError(f"'{text[place:].strip()[:1]}' is not understood in '{text.strip()}'")
            kind, word = match.lastgroup or "", match[match.lastgroup or 0]
            if kind == "register" and self._tokens and (self._tokens[-1][0] != "sign" or self._tokens[-1][1] in ")]"):
                # Behind an operand it is a remainder.
                self._tokens += [("sign", "%")]
                place = match.start(kind) + 1
                continue
            self._tokens.append(("name" if kind == "register" else kind, word))
            place = match.end()
        self._at = 0
        self._depth = 0
        if not self._tokens:
            raise CExpressionError("the expression is empty")
        if len(self._tokens) > _LONGEST:
            raise CExpressionError("the expression is too long")

    @property
    def _next(self) -> str:
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        return text if kind == "sign" else ""

    def _take(self, sign: str) -> bool:
        if self._next != sign:
            return False
        self._at += 1
        return True

    def _expect(self, sign: str) -> None:
        if not self._take(sign):
            raise CExpressionError(f"'{sign}' is missing{self._where()}")

    def _where(self) -> str:
        return f" before '{self._tokens[self._at][1]}'" if self._at < len(self._tokens) else " at the end"

    def end(self) -> None:
        if self._at < len(self._tokens):
            raise CExpressionError(f"'{self._tokens[self._at][1]}' is not expected here")

    def conditional(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise CExpressionError("the expression is nested too deeply")
        condition = self._binary(1)
        if self._take("?"):
            first = self.conditional()
            self._expect(":")
            condition = CConditional(condition, first, self.conditional())
        self._depth -= 1
        return condition

    def _binary(self, lowest: int) -> Node:
        left = self._unary()
        while (precedence := _PRECEDENCE.get(self._next, 0)) >= lowest:
            sign = self._next
            self._at += 1
            left = CBinary(sign, left, self._binary(precedence + 1))
        return left

    def _unary(self) -> Node:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise CExpressionError("the expression is nested too deeply")
        node = self._prefixed()
        self._depth -= 1
        return node

    def _prefixed(self) -> Node:
        for sign in _UNARY:
            if self._take(sign):
                return CUnary(sign, self._unary())
        type_ = self._conversion()
        return self._postfixed() if type_ is None else CUnary(type_, self._unary())

    def _conversion(self) -> str | None:
        """Take ``(type)`` before an operand."""
        if self._next != "(":
            return None
        end, words = self._at + 1, []
        while end < len(self._tokens) and self._tokens[end][0] == "name":
            words.append(self._tokens[end][1])
            end += 1
        known = element_type(" ".join(words)) if words else None
        if known is None or known.lanes != 1 or self._tokens[end : end + 1] != [("sign", ")")]:
            return None
        self._at = end + 1
        return known.dtype

    def _postfixed(self) -> Node:
        node = self._primary()
        while True:
            if self._take("["):
                node = CBinary("[]", node, self.conditional())
                self._expect("]")
            elif self._take(".") or self._take("->"):
                kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
                if kind != "name":
                    raise CExpressionError(f"the name of a member is missing{self._where()}")
                self._at += 1
                node = CMember(node, text)
            else:
                return node

    def _primary(self) -> Node:
        if self._take("("):
            node = self.conditional()
            self._expect(")")
            return node
        kind, text = self._tokens[self._at] if self._at < len(self._tokens) else ("", "")
        if kind in ("", "sign"):
            raise CExpressionError(f"a value is missing{self._where()}")
        self._at += 1
        if kind == "int":
            return CLiteral(int(text, 16) if text[:2] in ("0x", "0X") else int(text))
        if kind == "character":
            return CLiteral(ord(_ESCAPES.get(text[1:], text[1:]) if len(text) > 1 else text))
        if kind == "float":
            return CLiteral(float(text.rstrip("fF")))
        if text in ("true", "false"):
            return CLiteral(int(text == "true"))
        if self._next == "(":
            raise CExpressionError(f"functions such as {text}() are not called: the kernel is not executed again")
        return CName(text)

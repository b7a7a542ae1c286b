"""C integer expressions of host code, as expressions over dims.

Launches say ``(n + 255) / 256`` or ``CEIL_DIV(M, 32)``. Only plain integer arithmetic is understood; anything else
gives None, and the caller asks the user instead of guessing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuemu_lsp.engine.plan.types import dtype_size, element_type
from gpuemu_lsp.engine.project.expressions import constant, parse

_TOKEN = re.compile(
    r"\s*(?:(0[xX][0-9a-fA-F]+|\d+)[uUlL]*|([A-Za-z_][\w]*(?:::[A-Za-z_]\w*)*(?:\.[xyz]\b)?)|(<<|>>|[-+*/%(),<>]))"
)
_CEIL_DIV = re.compile(
    r"(?i)^(?:\w+::)*_*(?:ceil_?div|div_?ceil|div_?up|ceiling_?div|cdiv|i?div_?round_?up|round_?up_?div)\w*$"
)
_INTEGER_TYPES = frozenset(
    (
        "int",
        "unsigned",
        "long",
        "short",
        "size_t",
        "int32_t",
        "int64_t",
        "uint32_t",
        "uint64_t",
        "uint",
        "dim3",
        "float",
        "double",
        "auto",
    )
)
_MAX_DEPTH = 40


class _UnreadableError(Exception):
    """The text is not plain integer arithmetic."""


def translate(text: str, names: Mapping[str, str], definitions: Mapping[str, str]) -> str | None:
    """Rewrite a C expression in the grammar of gpuemu.toml.

    Parameters
    ----------
    text
        The C expression.
    names
        C name -> dim (or number) it stands for.
    definitions
        C name -> C text, for constants and locals; substituted where ``names`` has nothing.

    Returns
    -------
    str | None
        The expression, fully parenthesised, or None when it cannot be read.
    """
    try:
        return _Reader(names, definitions, 0).read(text)
    except _UnreadableError:
        return None


class _Reader:
    """A recursive-descent reader for one expression; substitutions open a nested one."""

    def __init__(self, names: Mapping[str, str], definitions: Mapping[str, str], depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise _UnreadableError
        self._names = names
        self._definitions = definitions
        self._depth = depth
        self._tokens: list[str] = []
        self._at = 0

    def read(self, text: str) -> str:
        position = 0
        stripped = text.strip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise _UnreadableError
            self._tokens.append(match.group(1) or match.group(2) or match.group(3))
            position = match.end()
        result = self._sum()
        if self._at != len(self._tokens):
            raise _UnreadableError
        return result

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, expected: str | None = None) -> str:
        token = self._peek()
        if not token or (expected is not None and token != expected):
            raise _UnreadableError
        self._at += 1
        return token

    def _sum(self) -> str:
        """Read shifts, which bind loosest here: ``1 << 5 + 1`` is 64 in C."""
        left = self._additive()
        while self._peek() in ("<<", ">>"):
            operator = self._take()
            right = constant(parse(self._additive()))
            if right is None or not 0 <= right <= 40:
                raise _UnreadableError
            left = f"({left} {'*' if operator == '<<' else '//'} {1 << right})"
        return left

    def _additive(self) -> str:
        left = self._product()
        while self._peek() in ("+", "-"):
            operator = self._take()
            left = f"({left} {operator} {self._product()})"
        return left

    def _product(self) -> str:
        left = self._unary()
        while self._peek() in ("*", "/", "%"):
            operator = self._take()
            left = f"({left} {'//' if operator == '/' else operator} {self._unary()})"
        return left

    def _unary(self) -> str:
        token = self._peek()
        if token == "-":
            self._take()
            return f"(-{self._unary()})"
        if token == "+":
            self._take()
            return self._unary()
        if token == "(":
            self._take()
            words = []
            start = self._at
            while self._peek() in _INTEGER_TYPES:
                words.append(self._take())
            if words and self._peek() == ")":  # a cast
                self._take()
                return self._unary()
            self._at = start
            inner = self._sum()
            self._take(")")
            return inner
        return self._atom(self._take())

    def _atom(self, token: str) -> str:
        if token[0].isdigit():
            return str(int(token, 0) if token.lower().startswith("0x") else int(token))
        if not (token[0].isalpha() or token[0] == "_"):
            raise _UnreadableError
        if token == "static_cast" and self._peek() == "<":
            while self._take() != ">":
                pass
            self._take("(")
            inner = self._sum()
            self._take(")")
            return inner
        if token == "sizeof":
            return self._sizeof()
        if self._peek() == "(":
            return self._call(token)
        if token in self._names:
            return self._names[token]
        if token in self._definitions:
            return _Reader(self._names, self._definitions, self._depth + 1).read(self._definitions[token])
        raise _UnreadableError

    def _sizeof(self) -> str:
        self._take("(")
        words = []
        while self._peek() != ")":
            words.append(self._take())
        self._take(")")
        known = element_type(" ".join(words), dict(self._definitions))
        if known is None:
            raise _UnreadableError
        return str(dtype_size(known.dtype) * known.lanes)

    def _call(self, name: str) -> str:
        start = self._at
        self._take("(")
        arguments = [self._sum()]
        while self._peek() == ",":
            self._take()
            arguments.append(self._sum())
        self._take(")")
        base = name.rsplit("::", 1)[-1]
        if base.lower() in ("min", "max") and len(arguments) == 2:
            base = base.lower()
            return f"{base}({arguments[0]}, {arguments[1]})"
        if _CEIL_DIV.match(name) and len(arguments) == 2:
            return f"ceil_div({arguments[0]}, {arguments[1]})"
        if base in ("ceil", "ceilf") and len(arguments) == 1:
            return self._ceil(start)
        raise _UnreadableError

    def _ceil(self, start: int) -> str:
        # ceil(n / 256.0f) and ceil((float)n / b): the division inside is a real one.
        end, self._at = self._at, start
        self._take("(")
        left = self._unary()
        self._take("/")
        right = self._unary()
        if self._peek() != ")":
            raise _UnreadableError
        self._at = end
        return f"ceil_div({left}, {right})"

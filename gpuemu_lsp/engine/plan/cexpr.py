"""C integer expressions of host code, translated to expressions over dims.

Typical of a launch are ``(n + 255) / 256`` and ``CEIL_DIV(M, 32)``. Only integer arithmetic is supported; the
translation of anything else is None.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field

from gpuemu_lsp.engine.element_types import dtype_size, element_type
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


@dataclass(frozen=True, slots=True)
class Scope:
    """The meaning of C names in an expression.

    ``sizes`` maps a name to the dim or number that it stands for, ``definitions`` to C text (constants and locals) that
    is substituted where ``sizes`` has no such name.
    """

    sizes: Mapping[str, str] = field(default_factory=dict)
    definitions: Mapping[str, str] = field(default_factory=dict)


class _UnsupportedError(Exception):
    """The text is not integer arithmetic."""


def translate(text: str, scope: Scope) -> str | None:
    """Translate a C expression to the grammar of gpuemu.toml (:mod:`gpuemu_lsp.engine.project.expressions`).

    Returns
    -------
    str | None
        The expression, fully parenthesised, or None when it is not integer arithmetic over names of ``scope``.
    """
    try:
        return _Translator(scope, 0).expression(text)
    except _UnsupportedError:
        return None


class _Translator:
    """A recursive-descent parser for one expression; a substituted name is parsed by a nested one."""

    def __init__(self, scope: Scope, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise _UnsupportedError
        self._scope = scope
        self._depth = depth
        self._tokens: list[str] = []
        self._at = 0

    def expression(self, text: str) -> str:
        position = 0
        stripped = text.strip()
        while position < len(stripped):
            match = _TOKEN.match(stripped, position)
            if match is None:
                raise _UnsupportedError
            self._tokens.append(match.group(1) or match.group(2) or match.group(3))
            position = match.end()
        result = self._sum()
        if self._at != len(self._tokens):
            raise _UnsupportedError
        return result

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self, expected: str | None = None) -> str:
        token = self._peek()
        if not token or (expected is not None and token != expected):
            raise _UnsupportedError
        self._at += 1
        return token

    def _sum(self) -> str:
        """Parse shifts, which have the lowest precedence here: ``1 << 5 + 1`` is 64 in C."""
        left = self._additive()
        while self._peek() in ("<<", ">>"):
            operator = self._take()
            right = constant(parse(self._additive()))
            if right is None or not 0 <= right <= 40:
                raise _UnsupportedError
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
            raise _UnsupportedError
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
        if token in self._scope.sizes:
            return self._scope.sizes[token]
        if token in self._scope.definitions:
            return _Translator(self._scope, self._depth + 1).expression(self._scope.definitions[token])
        raise _UnsupportedError

    def _sizeof(self) -> str:
        self._take("(")
        words = []
        while self._peek() != ")":
            words.append(self._take())
        self._take(")")
        known = element_type(" ".join(words), self._scope.definitions)
        if known is None:
            raise _UnsupportedError
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
        raise _UnsupportedError

    def _ceil(self, start: int) -> str:
        # ceil(n / 256.0f) and ceil((float)n / b): the division in it is of floating-point numbers.
        end, self._at = self._at, start
        self._take("(")
        left = self._unary()
        self._take("/")
        right = self._unary()
        if self._peek() != ")":
            raise _UnsupportedError
        self._at = end
        return f"ceil_div({left}, {right})"

"""Constant expressions (PTX ISA sections 4.5.4 to 4.5.6): C's operators on signed and unsigned 64-bit integers."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

from gpuemu_lsp.engine.ptx.literals import literal
from gpuemu_lsp.engine.ptx.model import Immediate

_TOKEN = re.compile(r"\s*(\(\s*\.[su]64\s*\)|\w+|<<|>>|<=|>=|==|!=|&&|\|\||[-+*/%&|^<>()!~?:])", re.ASCII)
_PRECEDENCE = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"),
    ("*", "/", "%"),
)  # fmt: skip
_MASK = (1 << 64) - 1
_LONGEST = 400
_DEEPEST = 32


class _Constant(NamedTuple):
    """An integer with its type, ``.s64`` or ``.u64`` (section 4.5.5)."""

    value: int
    signed: bool


def constant(text: str) -> Immediate | None:
    """Return the value of an integer constant expression; None if ``text`` is not one."""
    if len(text) > _LONGEST:
        return None
    try:
        result = _ExpressionParser(_tokens(text)).whole()
    except (ValueError, ZeroDivisionError):
        return None
    return Immediate(result.value, "int")


def _tokens(text: str) -> list[str]:
    tokens, position = [], 0
    text = text.rstrip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise ValueError(text)
        tokens.append(match[1])
        position = match.end()
    return tokens


class _ExpressionParser:
    def __init__(self, tokens: list[str]) -> None:
        self._tokens = tokens
        self._at = 0
        self._depth = 0

    def whole(self) -> _Constant:
        result = self._conditional()
        if self._at != len(self._tokens):
            raise ValueError(self._peek())
        return result

    def _peek(self) -> str:
        return self._tokens[self._at] if self._at < len(self._tokens) else ""

    def _take(self) -> str:
        self._at += 1
        return self._tokens[self._at - 1] if self._at <= len(self._tokens) else ""

    def _expect(self, token: str) -> None:
        if self._take() != token:
            raise ValueError(token)

    def _conditional(self) -> _Constant:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise ValueError("nested too deeply")
        result = self._binary(0)
        if self._peek() == "?":
            self._take()
            then = self._conditional()
            self._expect(":")
            otherwise = self._conditional()
            result = _Constant((then if result.value else otherwise).value, then.signed and otherwise.signed)
        self._depth -= 1
        return result

    def _binary(self, level: int) -> _Constant:
        if level == len(_PRECEDENCE):
            return self._unary()
        left = self._binary(level + 1)
        while self._peek() in _PRECEDENCE[level]:
            operator = self._take()
            left = _applied(operator, left, self._binary(level + 1))
        return left

    def _unary(self) -> _Constant:
        token = self._take()
        if token == "(":
            result = self._conditional()
            self._expect(")")
            return result
        if token.startswith("("):
            return _typed(self._unary().value, ".s64" in token)
        if token in ("-", "+", "~", "!"):
            operand = self._unary()
            if token == "!":
                return _Constant(int(not operand.value), True)
            return _typed({"-": -operand.value, "+": operand.value, "~": ~operand.value}[token], operand.signed)
        number = literal(token) if token else None
        if number is None or number.kind != "int":
            raise ValueError(token)
        # Signed, unless it is written with U or needs the 64th bit (section 4.5.1).
        return _typed(number.bits, not token.endswith("U") and number.bits >> 63 == 0)


def _typed(value: int, signed: bool) -> _Constant:
    value &= _MASK
    return _Constant(value - (1 << 64) if signed and value >> 63 else value, signed)


_ARITHMETIC: dict[str, Callable[[int, int], int]] = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "/": lambda a, b: abs(a) // abs(b) * (1 if (a < 0) == (b < 0) else -1),
    "%": lambda a, b: abs(a) % abs(b) * (1 if a >= 0 else -1),
    "&": lambda a, b: a & b,
    "|": lambda a, b: a | b,
    "^": lambda a, b: a ^ b,
}
_TRUTH: dict[str, Callable[[int, int], bool]] = {
    "==": lambda a, b: a == b,
    "!=": lambda a, b: a != b,
    "<": lambda a, b: a < b,
    "<=": lambda a, b: a <= b,
    ">": lambda a, b: a > b,
    ">=": lambda a, b: a >= b,
}


def _applied(operator: str, left: _Constant, right: _Constant) -> _Constant:
    if operator in ("<<", ">>"):
        # The result has the type of the left operand (section 4.5.6); a shift by 64 or more leaves only the sign.
        amount = min(right.value & _MASK, 64)
        return _typed(left.value << amount if operator == "<<" else left.value >> amount, left.signed)
    if operator in ("&&", "||"):
        truths = (bool(left.value), bool(right.value))
        return _Constant(int(all(truths) if operator == "&&" else any(truths)), True)
    # With one unsigned operand both are converted to .u64, as in C.
    signed = left.signed and right.signed
    a, b = _typed(left.value, signed).value, _typed(right.value, signed).value
    if operator in _TRUTH:
        return _Constant(int(_TRUTH[operator](a, b)), True)
    return _typed(_ARITHMETIC[operator](a, b), signed)

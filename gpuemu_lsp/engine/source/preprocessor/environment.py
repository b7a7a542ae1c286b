"""Macro state at a point of preprocessing, and three-valued evaluation of ``#if`` expressions (C++17 [cpp.cond]).

Values that depend on headers outside of the user's files, on the architecture or on the host compiler are unknown
(None) rather than guessed, and unknown operands propagate unless the other side of ``&&`` or ``||`` decides.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, MutableMapping

from gpuemu_lsp.engine.source.preprocessor.lexer import Directive
from gpuemu_lsp.engine.source.preprocessor.macros import definition

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F']+|\d[\d']*)[uUlL]*|(?P<name>[A-Za-z_]\w*)"
    r"|(?P<sign>&&|\|\||[=!<>]=|<<|>>|[-+*/%&|^~!<>()?:]))"
)
# NVRTC's own macros. __CUDA_ARCH__ is defined, but its value belongs to the architecture of one compilation.
_BUILTIN: Mapping[str, str | None] = {
    "__CUDACC__": "1",
    "__CUDACC_RTC__": "1",
    "__NVCC__": None,
    "__CUDA_ARCH__": None,
    "__cplusplus": "201703",
    "true": "1",
    "false": "0",
}
_ABSENT = re.compile(
    r"_WIN32|_WIN64|_MSC_VER|__MINGW\w*|__APPLE__|__HIP\w*__|__SYCL\w*|_OPENMP|_OPENACC|__ANDROID__|__EMSCRIPTEN__"
    r"|__DEVICE_EMULATION__"
    r"|__arm\w*|__aarch64__"
)
_RESERVED = re.compile(
    r"_|CUDART|(?:CUDA|CUB|CCCL|THRUST|NV|CUTLASS|CUTE|FLT|DBL|LDBL|M|EXIT)_|U?INT\d|U?(?:INT|LONG|LLONG|CHAR|SHRT)_M"
    r"|(?:SIZE|PTRDIFF|U?INTPTR|U?INTMAX)_M|INFINITY$|NAN$|HUGE_VAL|NULL$|CHAR_BIT$"
)
"""Names that the compiler, CUDA's headers or the standard library may define: unknown unless in ``_ABSENT``."""
_PRECEDENCE = (
    ("||",),
    ("&&",),
    ("|",),
    ("^",),
    ("&",),
    ("==", "!="),
    ("<", "<=", ">", ">="),
    ("<<", ">>"),
    ("+", "-"),
    ("*", "/", "%"),
)
_MAX_DEPTH = 30
_MAX_SHIFT = 63


class _NotConstantError(Exception):
    """A condition that is not an integer constant expression of the supported subset."""


class MacroEnvironment:
    """Macros that are defined at a point of preprocessing.

    ``values`` has the replacement list of each defined macro, None where it is unknown. A name in ``doubtful`` was
    defined or undefined in a branch whose condition is unknown.
    """

    def __init__(self, defines: Mapping[str, str | None]) -> None:
        self.values: MutableMapping[str, str | None] = {**_BUILTIN, **defines}
        self.doubtful: set[str] = set()

    def is_defined(self, name: str) -> bool | None:
        """Return whether a macro is defined; None where that is unknown."""
        if name in self.doubtful:
            return None
        if name in self.values:
            return True
        return None if _RESERVED.match(name) and not _ABSENT.fullmatch(name) else False

    def evaluate(self, text: str) -> bool | None:
        """Return the value of an ``#if`` expression; None where it is unknown."""
        try:
            value = _ConditionParser(text, self, 0).whole()
        except _NotConstantError:
            return None
        return None if value is None else value != 0

    def change(self, directive: Directive, certain: bool) -> None:
        """Apply a ``#define`` or ``#undef``; not ``certain`` inside a branch whose condition is unknown."""
        macro = definition(directive)
        name = macro.name if macro else directive.body.split(maxsplit=1)[0] if directive.body else ""
        if not name:
            return
        if not certain:
            self.doubtful.add(name)
            return
        self.doubtful.discard(name)
        self.values.pop(name, None)
        if macro is not None:
            self.values[name] = macro.body if macro.parameters is None else None


class _ConditionParser:
    """Recursive-descent evaluator of one condition; values are integers, None where unknown."""

    def __init__(self, text: str, environment: MacroEnvironment, depth: int) -> None:
        if depth > _MAX_DEPTH:  # `#define A B`, `#define B A`: recursion is not tracked by name
            raise _NotConstantError
        self._environment, self._depth = environment, depth
        self._tokens: list[re.Match[str]] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise _NotConstantError
            self._tokens.append(match)
            position = match.end()
        self._index = 0

    def whole(self) -> int | None:
        value = self._ternary()
        if self._index != len(self._tokens):
            raise _NotConstantError
        return value

    def _next(self) -> re.Match[str]:
        if self._index == len(self._tokens) or self._index > 1000:
            raise _NotConstantError
        self._index += 1
        return self._tokens[self._index - 1]

    def _accept(self, *signs: str) -> str | None:
        if self._index < len(self._tokens) and self._tokens[self._index]["sign"] in signs:
            return self._next()["sign"]
        return None

    def _ternary(self) -> int | None:
        value = self._binary(0)
        if self._accept("?") is None:
            return value
        first = self._ternary()
        if self._accept(":") is None:
            raise _NotConstantError
        second = self._ternary()
        return None if value is None else first if value else second

    def _binary(self, level: int) -> int | None:
        if level == len(_PRECEDENCE):
            return self._unary()
        value = self._binary(level + 1)
        while sign := self._accept(*_PRECEDENCE[level]):
            value = _apply(sign, value, self._binary(level + 1))
        return value

    def _unary(self) -> int | None:
        sign = self._accept("!", "-", "+", "~")
        if sign is None:
            return self._atom()
        value = self._unary()
        if value is None:
            return None
        return {"!": int(not value), "-": -value, "+": value, "~": ~value}[sign]

    def _atom(self) -> int | None:
        token = self._next()
        if token["number"]:
            digits = token["number"].replace("'", "")
            return int(digits, 8 if re.fullmatch(r"0[0-7]+", digits) else 0) if not re.fullmatch(r"0\d+", digits) else 0
        if token["name"]:
            return self._name(token["name"])
        if token["sign"] != "(":
            raise _NotConstantError
        value = self._ternary()
        if self._accept(")") is None:
            raise _NotConstantError
        return value

    def _name(self, name: str) -> int | None:
        if name == "defined":
            bracket = self._accept("(")
            target = self._next()["name"]
            if not target or (bracket and self._accept(")") is None):
                raise _NotConstantError
            defined = self._environment.is_defined(target)
            return None if defined is None else int(defined)
        if name.startswith("__has_"):
            # Whether a header or attribute exists depends on the compiler that is asked.
            raise _NotConstantError
        defined = self._environment.is_defined(name)
        if not defined:
            return None if defined is None else 0  # [cpp.cond]: remaining identifiers are replaced with 0
        body = self._environment.values[name]
        return (
            None
            if body is None
            else _ConditionParser(body, self._environment, self._depth + 1).whole()
            if body
            else None
        )


def _apply(sign: str, left: int | None, right: int | None) -> int | None:
    """Apply a binary operator; one known operand can decide ``&&`` and ``||``."""
    if sign == "&&":
        return 0 if 0 in (left, right) else None if None in (left, right) else 1
    if sign == "||":
        return 1 if any(value not in (0, None) for value in (left, right)) else None if None in (left, right) else 0
    if left is None or right is None:
        return None
    if sign in ("/", "%"):
        if right == 0:
            raise _NotConstantError
        # C++ division truncates towards zero, Python's floors.
        quotient = abs(left) // abs(right) * (1 if left * right >= 0 else -1)
        return quotient if sign == "/" else left - quotient * right
    if sign in ("<<", ">>"):
        if not 0 <= right <= _MAX_SHIFT:
            raise _NotConstantError
        return left << right if sign == "<<" else left >> right
    return {
        "|": left | right,
        "^": left ^ right,
        "&": left & right,
        "==": int(left == right),
        "!=": int(left != right),
        "<": int(left < right),
        "<=": int(left <= right),
        ">": int(left > right),
        ">=": int(left >= right),
        "+": left + right,
        "-": left - right,
        "*": left * right,
    }[sign]

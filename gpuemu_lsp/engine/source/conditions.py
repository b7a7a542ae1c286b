"""Which ``#if`` branches NVRTC will not see: code in them is nobody's business.

Only what is certain counts. A macro of CUDA's headers, or a value that depends on the architecture, makes a condition
unknown, and an unknown branch is treated as live.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from gpuemu_lsp.engine.source.lexer import Directive, Text
from gpuemu_lsp.engine.source.macros import definition

Resolve: TypeAlias = Callable[[Text, str, Directive], str | None]
"""From a text, its path and an include line to the path of a user header."""

_TOKEN = re.compile(
    r"\s*(?:(?P<number>0[xX][0-9a-fA-F']+|\d[\d']*)[uUlL]*|(?P<name>[A-Za-z_]\w*)|(?P<sign>&&|\|\||[=!<>]=|<<|>>|[-+*/%&|^~!<>()?:]))"
)
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
    r"_WIN32|_WIN64|_MSC_VER|__MINGW\w*|__APPLE__|__HIP\w*__|__SYCL\w*|_OPENMP|_OPENACC|__ANDROID__|__EMSCRIPTEN__|__arm\w*|__aarch64__"
)
_RESERVED = re.compile(
    r"_|(?:CUDA|CUB|CCCL|THRUST|NV|CUTLASS|CUTE|FLT|DBL|INT|UINT|LONG|CHAR|SIZE|M)_?[A-Z_]|INFINITY$|NAN$"
)
_PRECEDENCE = (
    ("||",), ("&&",), ("|",), ("^",), ("&",), ("==", "!="), ("<", "<=", ">", ">="), ("<<", ">>"), ("+", "-"), ("*", "/", "%"),
)  # fmt: skip
_MAX_DEPTH = 30
_MAX_SHIFT = 63


class _UnreadableError(Exception):
    """The condition is no integer expression."""


@dataclass(slots=True)
class _Branch:
    """An open ``#if``: where its live or dead part began, and whether a branch has been taken (None: perhaps)."""

    live: bool | None
    taken: bool | None
    start: int


class Environment:
    """The macros that are defined at a point of the translation, as far as that is certain.

    A value of None means: defined, but the value is not known; a name in ``doubtful`` may be defined or not.
    """

    def __init__(self, defines: Mapping[str, str | None]) -> None:
        self.values: MutableMapping[str, str | None] = {**_BUILTIN, **defines}
        self.doubtful: set[str] = set()

    def is_defined(self, name: str) -> bool | None:
        """Say whether a macro is defined; None when nobody knows."""
        if name in self.doubtful:
            return None
        if name in self.values:
            return True
        return None if _RESERVED.match(name) and not _ABSENT.fullmatch(name) else False

    def evaluate(self, text: str) -> bool | None:
        """Evaluate the expression of an ``#if``; None when its value is not certain."""
        try:
            value = _Reader(text, self, 0).whole()
        except _UnreadableError:
            return None
        return None if value is None else value != 0

    def change(self, directive: Directive, certain: bool) -> None:
        """Apply a ``#define`` or ``#undef``."""
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


def defines(options: Sequence[str]) -> dict[str, str | None]:
    """Read ``-DNAME``, ``-DNAME=VALUE``, ``-D NAME``, ``--define-macro=NAME`` and their ``-U`` from compiler options."""
    found: dict[str, str | None] = {}
    waiting = list(options)
    while waiting:
        option = waiting.pop(0)
        match = re.match(r"(?:(?P<define>-D|--define-macro)|-U|--undefine-macro)(?P<rest>.*)", option, re.DOTALL)
        if match is None:
            continue
        rest = match["rest"].removeprefix("=") or (waiting.pop(0) if waiting else "")
        name, sign, value = rest.strip().partition("=")
        if match["define"] and name:
            found[name] = value if sign else "1"
        else:
            found.pop(name, None)
    return found


def dead_spans(
    path: str, text: Text, headers: Mapping[str, Text], defines: Mapping[str, str | None], resolve: Resolve
) -> dict[str, tuple[tuple[int, int], ...]]:
    """Return the stretches between directives that are never compiled, for a file and its headers.

    A header that is included several times is dead only where it is dead each time.
    """
    walk = _Walk(headers, Environment(defines), resolve)
    walk.file(path, text, 0)
    return {name: _common(runs) for name, runs in walk.found.items()}


class _Walk:
    """The order in which the preprocessor meets the directives of all files."""

    def __init__(self, headers: Mapping[str, Text], environment: Environment, resolve: Resolve) -> None:
        self._headers, self._environment, self._resolve = headers, environment, resolve
        self._once: set[str] = set()
        self._visits = 0
        self.found: dict[str, list[list[tuple[int, int]]]] = {}

    def file(self, path: str, text: Text, depth: int) -> None:
        self._visits += 1
        if path in self._once or depth > _MAX_DEPTH or self._visits > 1000:
            return
        spans: list[tuple[int, int]] = []
        branches: list[_Branch] = []
        for directive in text.directives:
            kind = directive.kind
            if kind.startswith(("if", "el", "endif")):
                self._conditional(branches, directive, spans)
                continue
            states = [branch.live for branch in branches]
            if False in states:
                continue
            certain = None not in states
            if kind in ("define", "undef"):
                self._environment.change(directive, certain)
            elif kind == "pragma" and directive.body.startswith("once"):
                self._once.add(path)
            elif kind in ("include", "include_next"):
                header = self._resolve(text, path, directive)
                if header in self._headers and header is not None and header != path:
                    self.file(header, self._headers[header], depth + 1)
        self.found.setdefault(path, []).append(spans)

    def _conditional(self, branches: list[_Branch], directive: Directive, spans: list[tuple[int, int]]) -> None:
        kind = directive.kind
        if kind.startswith("if"):
            outside = all(branch.live is not False for branch in branches)
            live = self._condition(kind[2:], directive.body) if outside else False
            branches.append(_Branch(live, live, directive.end))
        elif branches:
            branch = branches[-1]
            outside = all(other.live is not False for other in branches[:-1])
            if branch.live is False and outside and branch.start < directive.start:
                spans.append((branch.start, directive.start))
            if kind == "endif":
                branches.pop()
                return
            live = True if kind == "else" else self._condition(kind[4:], directive.body)
            if branch.taken is True or not outside:
                live = False
            elif branch.taken is None and live is True:
                live = None
            branch.live, branch.start = live, directive.end
            branch.taken = True if True in (branch.taken, live) else None if None in (branch.taken, live) else False

    def _condition(self, kind: str, body: str) -> bool | None:
        """Evaluate what follows ``#if``, ``#ifdef`` or ``#ifndef`` (``kind`` is "", "def" or "ndef")."""
        if not kind:
            return self._environment.evaluate(body)
        defined = self._environment.is_defined(body.split(maxsplit=1)[0]) if body else None
        return defined if kind == "def" or defined is None else not defined


def _common(runs: Sequence[Sequence[tuple[int, int]]]) -> tuple[tuple[int, int], ...]:
    common = set(runs[0])
    for run in runs[1:]:
        common &= {span for span in common if any(first <= span[0] and span[1] <= last for first, last in run)}
    return tuple(sorted(common))


class _Reader:
    """A recursive-descent reader of one condition. Values are integers, or None when not certain."""

    def __init__(self, text: str, environment: Environment, depth: int) -> None:
        if depth > _MAX_DEPTH:
            raise _UnreadableError
        self._environment, self._depth = environment, depth
        self._tokens: list[re.Match[str]] = []
        position = 0
        text = text.rstrip()
        while position < len(text):
            match = _TOKEN.match(text, position)
            if match is None:
                raise _UnreadableError
            self._tokens.append(match)
            position = match.end()
        self._index = 0

    def whole(self) -> int | None:
        value = self._ternary()
        if self._index != len(self._tokens):
            raise _UnreadableError
        return value

    def _next(self) -> re.Match[str]:
        if self._index == len(self._tokens) or self._index > 1000:
            raise _UnreadableError
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
            raise _UnreadableError
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
            raise _UnreadableError
        value = self._ternary()
        if self._accept(")") is None:
            raise _UnreadableError
        return value

    def _name(self, name: str) -> int | None:
        if name == "defined":
            bracket = self._accept("(")
            target = self._next()["name"]
            if not target or (bracket and self._accept(")") is None):
                raise _UnreadableError
            defined = self._environment.is_defined(target)
            return None if defined is None else int(defined)
        if name.startswith("__has_"):
            raise _UnreadableError
        defined = self._environment.is_defined(name)
        if not defined:
            return None if defined is None else 0
        body = self._environment.values[name]
        return None if body is None else _Reader(body, self._environment, self._depth + 1).whole() if body else None


def _apply(sign: str, left: int | None, right: int | None) -> int | None:
    """Combine two values as the preprocessor does; one certain side can settle ``&&`` and ``||``."""
    if sign == "&&":
        return 0 if 0 in (left, right) else None if None in (left, right) else 1
    if sign == "||":
        return 1 if any(value not in (0, None) for value in (left, right)) else None if None in (left, right) else 0
    if left is None or right is None:
        return None
    if sign in ("/", "%"):
        if right == 0:
            raise _UnreadableError
        quotient = abs(left) // abs(right) * (1 if left * right >= 0 else -1)
        return quotient if sign == "/" else left - quotient * right
    if sign in ("<<", ">>"):
        if not 0 <= right <= _MAX_SHIFT:
            raise _UnreadableError
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

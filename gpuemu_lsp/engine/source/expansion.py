"""Invocations of function-like macros, written out: kernels and launches often stand in one."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.source.lexer import closing, split_top, strip
from gpuemu_lsp.engine.source.macros import Macro, Macros

_PARAMETER = re.compile(r"##|#\s*[A-Za-z_]\w*|[A-Za-z_]\w*")
_MAX_LENGTH = 20_000


@dataclass(frozen=True, slots=True)
class Expansion:
    """``NAME(...)`` from ``start`` to ``end`` of some code, and the text it stands for."""

    start: int
    end: int
    text: str


def expansions(code: str, start: int, end: int, macros: Macros, contents: re.Pattern[str]) -> Iterator[Expansion]:
    """Yield the invocations in a stretch of code that lead to something ``contents`` matches.

    Only one level is written out: what comes out may hold further invocations.
    """
    names = [name for name in macros.definitions if leads_to(name, macros, contents)]
    if not names:
        return
    for match in re.compile(rf"\b(?:{'|'.join(map(re.escape, names))})\b\s*(?=\()").finditer(code, start, end):
        opening = match.end()
        close = closing(code, opening)
        inside = code[opening + 1 : close - 1]
        arguments = [inside[first:last] for first, last in split_top(inside)]
        for macro in macros.definitions[match[0].strip()]:
            text = substitute(macro, arguments)
            if text is not None:
                yield Expansion(match.start(), close, text)


def leads_to(name: str, macros: Macros, contents: re.Pattern[str]) -> bool:
    """Say whether a function-like macro, or one it uses, contains something."""
    if all(macro.parameters is None for macro in macros.definitions[name]):
        return False
    return any(contents.search(body) for word in macros.expand([name]) for body in macros.bodies(word))


def substitute(macro: Macro, arguments: Sequence[str]) -> str | None:
    """Write a macro's body out for some arguments; None when they do not fit."""
    if macro.parameters is None:
        return None
    values: dict[str, str] = {}
    for index, parameter in enumerate(macro.parameters):
        if parameter.endswith("..."):
            values[parameter.removesuffix("...") or "__VA_ARGS__"] = ", ".join(arguments[index:])
        elif index < len(arguments):
            values[parameter] = arguments[index]
        else:
            return None

    def replace(match: re.Match[str]) -> str:
        token = match[0]
        if token == "##":
            return token
        if token.startswith("#"):
            return '""' if token[1:].strip() in values else token
        return values.get(token, token)

    text = re.sub(r"\s*##\s*", "", _PARAMETER.sub(replace, macro.body))
    return text[: strip(text, 0, len(text))[1]] if len(text) <= _MAX_LENGTH else None

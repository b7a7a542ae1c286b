"""Expansion of function-like macros, in which kernels and launches are often written."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor.lexer import closing, split_top, strip
from gpuemu_lsp.engine.source.preprocessor.macros import Macro, MacroTable

_PARAMETER = re.compile(r"##|#\s*[A-Za-z_]\w*|[A-Za-z_]\w*")
_MAX_LENGTH = 20_000


@dataclass(frozen=True, slots=True)
class MacroExpansion:
    """An invocation ``NAME(...)`` from byte ``start`` to ``end``, and the text it expands to."""

    start: int
    end: int
    text: str


def invocation_pattern(contents: re.Pattern[str], macros: MacroTable) -> re.Pattern[str] | None:
    """Return a pattern of invocations of macros whose expansion may contain ``contents``; None without such macros."""
    return _known_patterns.get((contents, macros), lambda: _invocation_pattern(contents, macros))


_known_patterns: Memo[re.Pattern[str] | None] = Memo(16)


def _invocation_pattern(contents: re.Pattern[str], macros: MacroTable) -> re.Pattern[str] | None:
    names = [
        name
        for name, found in macros.definitions.items()
        if any(macro.parameters is not None for macro in found)
        and any(contents.search(body) for word in macros.expand([name]) for body in macros.bodies(word))
    ]
    return re.compile(rf"\b({'|'.join(map(re.escape, names))})\s*(?=\()") if names else None


def expansions(
    code: str, start: int, end: int, macros: MacroTable, invocation: re.Pattern[str] | None
) -> Iterator[MacroExpansion]:
    """Expand the invocations in a range of code by one level; the results may contain further invocations.

    Parameters
    ----------
    invocation
        From :func:`invocation_pattern`.
    """
    for match in invocation.finditer(code, start, end) if invocation is not None else ():
        for text in expansions_at(code, match.end(), macros.definitions[match[1]]):
            yield MacroExpansion(match.start(), closing(code, match.end()), text)


def expansions_at(code: str, opening: int, macros: Sequence[Macro]) -> Iterator[str]:
    """Yield the expansion of the invocation with its parenthesis at ``opening``, once per definition of its macro."""
    inside = code[opening + 1 : closing(code, opening) - 1]
    arguments = [inside[first:last] for first, last in split_top(inside)]
    for macro in macros:
        text = substitute(macro, arguments)
        if text is not None:
            yield text


def substitute(macro: Macro, arguments: Sequence[str]) -> str | None:
    """Return a macro's body with its arguments substituted; None for too few arguments or an over-long result."""
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
            # The text of a stringised argument is irrelevant: strings are blanked everywhere.
            return '""' if token[1:].strip() in values else token
        return values.get(token, token)

    text = re.sub(r"\s*##\s*", "", _PARAMETER.sub(replace, macro.body))
    return text[: strip(text, 0, len(text))[1]] if len(text) <= _MAX_LENGTH else None

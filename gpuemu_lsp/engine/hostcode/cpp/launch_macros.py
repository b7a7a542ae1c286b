"""Macros that contain launches, the arguments of one, or are around one, expanded in the text before it is parsed.

So are those that instantiate a template explicitly.
``LAUNCH(64) else LAUNCH(128)`` has no syntax tree, and ``kernel<<<grid, block>>>(ARGS)`` not its arguments, before the
preprocessor has replaced the macros. A file may define such a macro again for each of its functions: the definition
before the use counts. Other macros are expanded where they are evaluated.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Mapping, Sequence

from gpuemu_lsp.engine.source.preprocessor.expansion import substitute
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, SourceText, closing, split_top
from gpuemu_lsp.engine.source.preprocessor.macros import Macro, MacroTable, definition

_LAUNCH = re.compile(r"<<<|\bcudaLaunch\w*Kernel\b")
_INVOCATION = re.compile(r"\b([A-Za-z_]\w*)\s*\(")
_INSTANCE = re.compile(r"&?\s*[A-Za-z_][\w:]*\s*<[^;{}()]*>")
_INSTANTIATION = re.compile(r"(?:extern\s+)?template\b(?!\s*<)")
_MAX_DEPTH = 6
_MAX_LENGTH = 400_000


def with_launch_macros(text: SourceText, macros: MacroTable) -> str:
    """Return the code of a file with these macros expanded; its lines keep their numbers."""
    around = _around_launches(text.code, macros)
    # Of hundreds of definitions in the headers of a project, few are used here.
    used = {match[0] for match in WORD.finditer(text.code)} & macros.definitions.keys()
    if not around and not any(_is_wanted(name, macros) for name in used):
        return text.code
    names = around.union(name for name in macros.definitions if _is_wanted(name, macros))
    places: dict[str, list[tuple[int, Macro]]] = {}
    for directive in text.directives:
        macro = definition(directive)
        if macro is not None and macro.name in names:
            places.setdefault(macro.name, []).append((directive.start, macro))
    expanding = _Expanding(re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b"), places, macros)
    found = expanding.expanded(text.code, None, frozenset())
    return found if len(found) <= _MAX_LENGTH else text.code


def _is_wanted(name: str, macros: MacroTable) -> bool:
    return any(map(_LAUNCH.search, macros.bodies(name))) or any(
        _is_list(macro) or _is_instance(macro) or _INSTANTIATION.match(macro.body) for macro in macros.definitions[name]
    )


def _around_launches(code: str, macros: MacroTable) -> frozenset[str]:
    """Return the macros with a launch among their arguments, such as one with a ``case`` for each dtype.

    The statements around it, which the macro's parentheses enclose, have no syntax tree before.
    """
    if "<<<" not in code:
        return frozenset()
    found: set[str] = set()
    for match in _INVOCATION.finditer(code):
        known = macros.definitions.get(match[1], ())
        if match[1] in found or not known or known[0].parameters is None or "{" not in known[0].body:
            continue
        if "<<<" in code[match.end() : closing(code, match.end() - 1)]:
            found.add(match[1])
    return frozenset(found)


def _is_instance(macro: Macro) -> bool:
    """Return whether a macro stands for one instance of a template, as those of a table of kernels do."""
    return macro.parameters is not None and _INSTANCE.fullmatch(macro.body) is not None


def _is_list(macro: Macro) -> bool:
    """Return whether a macro stands for several arguments: it has a comma outside of brackets, and no statements."""
    body = macro.body
    if "," not in body or "{" in body or ";" in body or not WORD.search(body):
        return False
    return len(list(split_top(body))) > 1 and "<<<" not in body


class _Expanding:
    """Expansion in one file."""

    def __init__(
        self, pattern: re.Pattern[str], places: Mapping[str, Sequence[tuple[int, Macro]]], macros: MacroTable
    ) -> None:
        self._pattern = pattern
        self._places = places
        self._macros = macros

    def expanded(self, code: str, place: int | None, within: frozenset[str]) -> str:
        """Return some code with its macros expanded; ``place`` is where in the file it stands, None for the file."""
        parts: list[str] = []
        done = 0
        for match in self._pattern.finditer(code):
            if match.start() < done or match[1] in within or len(within) >= _MAX_DEPTH:
                continue
            at = match.start() if place is None else place
            found = self._replacement(code, match, at)
            if found is None:
                continue
            replaced, end = found
            inner = self.expanded(replaced, at, within | {match[1]})
            parts += [code[done : match.start()], inner, "\n" * code.count("\n", match.start(), end)]
            done = end
        return "".join((*parts, code[done:])) if parts else code

    def _replacement(self, code: str, match: re.Match[str], at: int) -> tuple[str, int] | None:
        macro = self._definition(match[1], at)
        if macro is None:
            return None
        if macro.parameters is None:
            return macro.body, match.end()
        opening = match.end() + len(code[match.end() :]) - len(code[match.end() :].lstrip())
        if code[opening : opening + 1] != "(":
            return None
        end = closing(code, opening)
        inside = code[opening + 1 : end - 1]
        arguments = [" ".join(inside[first:last].split()) for first, last in split_top(inside)]
        text = substitute(macro, arguments)
        return (text, end) if text is not None else None

    def _definition(self, name: str, at: int) -> Macro | None:
        mine = self._places.get(name)
        if mine is None:
            return self._macros.definitions[name][0]
        index = bisect_right([start for start, _ in mine], at)
        return mine[max(index - 1, 0)][1]

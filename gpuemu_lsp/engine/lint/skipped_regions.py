"""Regions that the preprocessor certainly skips: ``#if 0``, and ``#ifdef`` of a name that nothing defines.

Simpler than ``source.preprocessor.conditions``, which follows definitions in order: here a name that is defined in any
file or option is unknown, so that one pass over a single text is enough.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from dataclasses import dataclass

from gpuemu_lsp.engine.source.preprocessor.lexer import SourceText

_DEFINED = re.compile(r"(!\s*)?defined\s*(?:\(\s*(\w+)\s*\)|(\w+))")
_COMPILERS_OWN = re.compile(r"__(?:CUDA|NV|cplusplus|LINE|FILE|SIZEOF|CHAR|GNUC|clang|x86_64|linux|STDC)\w*")


@dataclass(slots=True)
class _OpenBranch:
    """An open ``#if``: start of the current branch if it is skipped, and whether an earlier branch was taken."""

    dropped_from: int | None
    taken: bool | None  # None: unknown


def skipped_regions(text: SourceText, defined: AbstractSet[str]) -> Iterator[tuple[int, int]]:
    """Yield the byte spans of skipped branches, ascending and disjoint."""
    stack: list[_OpenBranch] = []
    spans: list[tuple[int, int]] = []
    for directive in text.directives:
        if directive.kind in ("if", "ifdef", "ifndef"):
            value = _value(directive.kind, directive.body, defined)
            stack.append(_OpenBranch(directive.end if value is False else None, value))
        elif directive.kind in ("elif", "elifdef", "elifndef", "else") and stack:
            branch = stack[-1]
            if branch.dropped_from is not None:
                spans.append((branch.dropped_from, directive.start))
            value = True if directive.kind == "else" else _value(directive.kind[2:], directive.body, defined)
            branch.dropped_from = directive.end if branch.taken or value is False else None
            if branch.taken or value:
                branch.taken = True
            elif branch.taken is None or value is None:
                branch.taken = None
        elif directive.kind == "endif" and stack:
            branch = stack.pop()
            if branch.dropped_from is not None:
                spans.append((branch.dropped_from, directive.start))
    end = -1
    for start, stop in sorted(spans):
        if stop > end:
            yield max(start, end, 0), stop
            end = stop


def _value(kind: str, body: str, defined: AbstractSet[str]) -> bool | None:
    words = body.split()
    if kind in ("ifdef", "ifndef"):
        known = _is_defined(words[0], defined) if words else None
        return known if kind == "ifdef" or known is None else not known
    if body.strip() in ("0", "1", "false", "true"):
        return body.strip() in ("1", "true")
    match = _DEFINED.fullmatch(body.strip())
    if match is None:
        return None
    known = _is_defined(match[2] or match[3], defined)
    return known if match[1] is None or known is None else not known


def _is_defined(name: str, defined: AbstractSet[str]) -> bool | None:
    """Return False for a name without any definition, otherwise None: it may still be undefined at this point."""
    return None if name in defined or _COMPILERS_OWN.match(name) else False

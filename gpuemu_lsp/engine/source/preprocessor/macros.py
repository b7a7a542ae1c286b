"""Macro definitions of a set of files.

Directives are not interpreted in order: a name that is defined several times, in different branches or files, has all
of its bodies at once. For reachability this errs towards keeping code.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Iterator, Set
from dataclasses import dataclass
from functools import lru_cache

from gpuemu_lsp.engine.source.memo import Memo
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, Directive, SourceText

_DEFINITION = re.compile(r"([A-Za-z_]\w*)(\(([^()]*)\))?(.*)", re.DOTALL)
_CONTINUATION = re.compile(r"\\\r?\n")


@dataclass(frozen=True, slots=True)
class Macro:
    """One ``#define``. ``parameters`` is None for an object-like macro; ``body`` is one line without comments."""

    name: str
    parameters: tuple[str, ...] | None
    body: str


class MacroTable:
    """Macro definitions by name."""

    def __init__(self, texts: Iterable[SourceText]) -> None:
        self.definitions: dict[str, list[Macro]] = {}
        for text in texts:
            for macro in definitions(text):
                self.definitions.setdefault(macro.name, []).append(macro)
        self._affecting: dict[frozenset[str], Hashable] = {}
        self.unbalanced = frozenset(
            name for name in self.definitions if any(body.count("{") != body.count("}") for body in self.bodies(name))
        )
        """Macros whose body has an unmatched brace, such as ``BEGIN_NAMESPACE``."""

    def affecting(self, words: Set[str]) -> Hashable:
        """Return a key of all definitions on which the meaning of some code depends, given the identifiers in it.

        Two tables with an equal key give the same result for the same code.
        """
        if self.definitions.keys().isdisjoint(words):
            return ()
        used = frozenset(words & self.definitions.keys())
        if used not in self._affecting:
            self._affecting[used] = self._definitions_behind(used)
        return self._affecting[used]

    def _definitions_behind(self, used: frozenset[str]) -> Hashable:
        names = sorted(self.expand(used) & self.definitions.keys())
        found = tuple(macro for name in names for macro in self.definitions[name])
        # Pasted tokens may be the name of any macro.
        return self if any("##" in macro.body for macro in found) else found

    def bodies(self, name: str) -> Iterator[str]:
        """Yield the replacement lists of a name."""
        return (macro.body for macro in self.definitions.get(name, ()))

    def is_attribute(self, name: str) -> bool:
        """Return whether a macro only decorates the declaration after it, as ``BOUNDS(256)`` for launch bounds does."""
        return name in self.definitions and not any(
            re.search(r"[{};]|\btemplate\b", body) for body in self.bodies(name)
        )

    def expand(self, words: Iterable[str]) -> frozenset[str]:
        """Return words with the identifiers in the bodies of macros among them, transitively."""
        if isinstance(words, frozenset) and self.definitions.keys().isdisjoint(words):
            return words
        found: set[str] = set()
        waiting = list(words)
        while waiting:
            word = waiting.pop()
            if word in found:
                continue
            found.add(word)
            if word in self.definitions:
                waiting += (inner for body in self.bodies(word) for inner in WORD.findall(body))
        return frozenset(found)


def macro_table(texts: Iterable[SourceText]) -> MacroTable:
    """Return the table of the definitions in some texts; the same table for the same definitions."""
    found = tuple(texts)
    key = tuple(macro for text in found for macro in definitions(text))
    return _known_tables.get(key, lambda: MacroTable(found))


_known_tables: Memo[MacroTable] = Memo(8)


def definitions(text: SourceText) -> Iterator[Macro]:
    """Yield the macros that a text defines, in order."""
    for directive in text.directives:
        macro = definition(directive)
        if macro is not None:
            yield macro


def definition(directive: Directive) -> Macro | None:
    """Read one ``#define``; None for any other directive."""
    return _read_definition(directive.body) if directive.kind == "define" else None


@lru_cache(maxsize=1 << 12)
def _read_definition(body_text: str) -> Macro | None:
    match = _DEFINITION.match(body_text)
    if match is None:
        return None
    body = _CONTINUATION.sub(" ", match[4])
    parameters = None if match[2] is None else tuple(part.strip() for part in match[3].split(",") if part.strip())
    # String literals are blanked in the body: callers search it for identifiers and brackets only.
    return Macro(match[1], parameters, " ".join(body.split()))

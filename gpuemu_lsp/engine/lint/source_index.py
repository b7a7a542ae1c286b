"""Source text of a kernel: its definition and the functions, types and macros it mentions, transitively.

Comments, strings and regions that the preprocessor certainly skips are excluded. Names are followed without scope or
overload resolution, so the text is a superset of what is compiled; PTX decides where it can.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.lint.skipped_regions import skipped_regions
from gpuemu_lsp.engine.source.headers.includes import closure
from gpuemu_lsp.engine.source.model import KernelDecl, SourceFile
from gpuemu_lsp.engine.source.preprocessor.lexer import WORD, blank, source_text
from gpuemu_lsp.engine.source.preprocessor.macros import MacroTable, macro_table
from gpuemu_lsp.engine.source.syntax.declarations import Declaration, DeclarationKind
from gpuemu_lsp.engine.source.syntax.parsed_source import ParsedSource, parse_source

_FOLLOWED = frozenset({DeclarationKind.FUNCTION, DeclarationKind.TYPE, DeclarationKind.ALIAS, DeclarationKind.VARIABLE})


@dataclass(frozen=True, slots=True)
class SourceMatch:
    """Bytes of a user's file that match a pattern; ``is_call`` if an argument list follows."""

    path: str
    start: int
    end: int
    is_call: bool


class SourceIndex:
    """Searchable text of the user's files, the main one first.

    Parameters
    ----------
    source
        The main file.
    include_dirs
        Further directories with user headers.
    defined
        Macros that compile options define.
    """

    def __init__(self, source: SourceFile, include_dirs: Sequence[str], defined: frozenset[str]) -> None:
        main = source_text(source.text)
        self.texts = {source.path: main, **closure(main, source.path, include_dirs, {})}
        self._main = source.path
        self._defined = defined

    @cached_property
    def macros(self) -> MacroTable:
        """The macros of all files."""
        return macro_table(self.texts.values())

    @cached_property
    def _files(self) -> tuple[ParsedSource, ...]:
        return tuple(parse_source(path, text, self.macros) for path, text in self.texts.items())

    @cached_property
    def _active(self) -> dict[str, str]:
        known = self._defined | self.macros.definitions.keys()
        return {path: blank(text.clean, skipped_regions(text, known)) for path, text in self.texts.items()}

    def place(self, path: str, start: int, end: int) -> Place:
        """Return byte offsets of a file as a place."""
        return Place(path, self.texts[path].range(start, end))

    def line(self, path: str, line: int) -> tuple[int, int]:
        """Return the byte offsets of the code on a 0-based line, without comments and surrounding spaces."""
        clean = self.texts[path].clean
        start = 0
        for _ in range(line):
            start = clean.find("\n", start) + 1
            if start == 0:
                return 0, 0
        end = clean.find("\n", start)
        raw = clean[start : end if end >= 0 else len(clean)]
        return start + len(raw) - len(raw.lstrip()), start + len(raw.rstrip())

    def find_near(self, path: str, line: int, word: str) -> tuple[int, int] | None:
        """Return the offsets of a word, or of a macro that expands to it, on a line or in the statement begun there."""
        clean = self._active[path]
        start, end = self.line(path, line)
        semicolon = clean.find(";", start)
        end = max(end, semicolon + 1 if semicolon >= 0 else len(clean))
        expression = _expression(word)
        match = expression.search(clean, start, end)
        if match is None:
            users = self._macros_with(expression)
            match = next((found for found in WORD.finditer(clean, start, end) if found[0] in users), None)
        return match.span() if match else None

    def tokens(self, kernel: KernelDecl | str, pattern: str) -> tuple[SourceMatch, ...]:
        """Return the matches of a pattern in a kernel's source text; a match in a macro is at each use of the macro.

        A function's own definition is not a match. ``kernel`` is a plain name for a kernel in a header.
        """
        expression = _expression(pattern)
        users = self._macros_with(expression)
        found: dict[tuple[str, int], SourceMatch] = {}
        for path, declaration in self._reached(kernel):
            clean, start, end = self._active[path], declaration.item.start, declaration.item.end
            body = declaration.item.body or end
            for match in expression.finditer(clean, start, end):
                if match.start() < body and not declaration.names.isdisjoint(WORD.findall(match[0])):
                    continue
                follows = clean[match.end() : end].lstrip()[:1]
                found.setdefault((path, match.start()), SourceMatch(path, *match.span(), follows in ("(", "<")))
            for match in WORD.finditer(clean, start, end):
                if match[0] in users:
                    found.setdefault((path, match.start()), SourceMatch(path, *match.span(), True))
        return tuple(found.values())

    def kernel_place(self, name: str) -> Place | None:
        """Return the name token of a kernel that a header defines; None if there is none."""
        for file, declaration in self._roots(name):
            start, end = declaration.item.start, declaration.item.body or declaration.item.end
            match = re.compile(rf"\b{re.escape(name)}\b").search(file.text.code, start, end)
            if match is not None:
                return self.place(file.path, *match.span())
        return None

    def is_function(self, name: str) -> bool:
        """Return whether the user's files define a function or macro of that name."""
        return name in self.macros.definitions or any(
            name in declaration.names
            for _, declaration in self._declarations()
            if declaration.kind is DeclarationKind.FUNCTION
        )

    def _macros_with(self, expression: re.Pattern[str]) -> frozenset[str]:
        direct = {name for name in self.macros.definitions if any(map(expression.search, self.macros.bodies(name)))}
        return frozenset(name for name in self.macros.definitions if self.macros.expand((name,)) & direct)

    def _declarations(self) -> Iterator[tuple[ParsedSource, Declaration]]:
        for file in self._files:
            for declaration in file.declarations:
                yield file, declaration

    def _roots(self, kernel: KernelDecl | str) -> Iterator[tuple[ParsedSource, Declaration]]:
        name = kernel if isinstance(kernel, str) else kernel.name
        for file, declaration in self._declarations():
            if not _is_kernel(declaration) or name not in declaration.names:
                continue
            if isinstance(kernel, str):
                yield file, declaration
            elif file.path == self._main:
                span = file.text.range(declaration.item.start, declaration.item.end)
                if span.start <= kernel.name_range.start <= span.end:
                    yield file, declaration

    @cached_property
    def _index(self) -> dict[str, list[tuple[ParsedSource, Declaration]]]:
        """Declarations that device code may refer to, by name."""
        index: dict[str, list[tuple[ParsedSource, Declaration]]] = {}
        for file, declaration in self._declarations():
            if declaration.kind in _FOLLOWED and not _is_kernel(declaration) and not declaration.host_only:
                for name in declaration.names:
                    index.setdefault(name, []).append((file, declaration))
        return index

    def _reached(self, kernel: KernelDecl | str) -> Iterator[tuple[str, Declaration]]:
        waiting = list(self._roots(kernel))
        seen: set[tuple[str, int]] = set()
        while waiting:
            file, declaration = waiting.pop()
            item = declaration.item
            if (file.path, item.start) in seen:
                continue
            seen.add((file.path, item.start))
            yield file.path, declaration
            words = self.macros.expand(WORD.findall(self._active[file.path], item.start, item.end))
            waiting += (found for word in words for found in self._index.get(word, ()))


def _is_kernel(declaration: Declaration) -> bool:
    return declaration.kind is DeclarationKind.FUNCTION and "__global__" in declaration.head_words


def whole_file(path: str) -> Place:
    """Return the first character of a file, for findings without a better place."""
    return Place(path, Range.of(0, 0, 0, 1))


def _expression(pattern: str) -> re.Pattern[str]:
    """Return a regular expression for a piece of C++ in any spacing; ``obj.f`` does not match ``f``."""
    pieces = [re.escape(piece).replace(r"\*", r"\w*") for piece in re.findall(r"[\w*]+|[^\s\w*]", pattern)]
    first, last = pattern[:1], pattern[-1:]
    before = r"(?<![\w.])(?<!->)" if first.isalnum() or first == "_" else ""
    after = r"(?!\w)" if last.isalnum() or last == "_" else ""
    return re.compile(before + r"\s*".join(pieces) + after)

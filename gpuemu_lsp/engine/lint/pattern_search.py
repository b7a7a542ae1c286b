"""Search for a pattern of ``artifact_checks``: an instruction, a function, an intrinsic, or source text."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Place
from gpuemu_lsp.engine.lint.instruction_patterns import matches
from gpuemu_lsp.engine.lint.intrinsics import INTRINSIC_TRACES
from gpuemu_lsp.engine.lint.kernel_ptx import KernelPtx, is_named
from gpuemu_lsp.engine.lint.source_index import SourceIndex, SourceMatch
from gpuemu_lsp.engine.ptx.demangle import demangled_name
from gpuemu_lsp.engine.ptx.model import Instruction, Location
from gpuemu_lsp.engine.source.model import KernelDecl

_CALL_SUFFIX = re.compile(r"\s*\(\s*\)?$")
_TEMPLATE_ARGUMENTS = re.compile(r"<.*>$", re.S)
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:::\w+)*")
_INSTRUCTION = re.compile(r"[%.\w:*]+")
_NOT_VARIABLES = re.compile(
    r"__\w+|[A-Z][A-Z0-9_]*|[a-z]+(?:2|3|4|16|32|64)(?:_t)?|alignas|asm|auto|bool|const|double|float|goto|half|inline"
    r"|int|long|new|delete|register|short|static|unsigned|virtual|volatile"
)
_MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """A match of a pattern on one line; ``what`` describes it. ``place`` is None if the line is unknown."""

    place: Place | None
    what: str


class PatternSearch:
    """Pattern search in one kernel; ``kernel`` is its plain name if a header declares it."""

    def __init__(self, ptx: KernelPtx, index: SourceIndex, kernel: KernelDecl | str) -> None:
        self._ptx, self._index, self._kernel = ptx, index, kernel
        self._paths = {os.path.normpath(path): path for path in index.texts}
        self._live = {place for instruction in ptx.instructions for place in self._places(instruction.location)}

    def find(self, pattern: str, certain: bool) -> tuple[PatternMatch, ...]:
        """Return the matches of a pattern, one per line, in text order.

        ``certain`` excludes calls in the source if no instruction has a line of their statement: they may be compiled
        away. A forbidden pattern is searched with ``certain``, a required one without, so that neither is a false
        positive.
        """
        wanted = _CALL_SUFFIX.sub("", pattern.strip())
        lines: dict[tuple[str, int], PatternMatch] = {}
        for match in self._matches(wanted, certain):
            key = (match.place.path, match.place.range.start.line) if match.place else ("", 0)
            lines.setdefault(key, match)
        if len(lines) > 1:
            lines.pop(("", 0), None)
        return tuple(match for _, match in sorted(lines.items(), key=lambda item: item[0]))

    def _matches(self, wanted: str, certain: bool) -> Iterator[PatternMatch]:
        known = INTRINSIC_TRACES.get(wanted)
        if known is not None:
            for instruction in self._ptx.instructions:
                if any(matches(pattern, instruction) for pattern in known.instructions):
                    yield self._at(instruction.location, wanted, f"'{wanted}' ({instruction.name})")
            for name, instruction in self._ptx.calls():
                if name in known.calls:
                    yield self._at(instruction.location, wanted, f"'{wanted}' (call of {name})")
            return
        yield from self._functions(wanted)
        yield from self._tokens(wanted, certain)
        if _INSTRUCTION.fullmatch(wanted):
            for instruction in self._ptx.instructions:
                if matches(wanted, instruction):
                    yield self._at(instruction.location, None, f"instruction {_shown(instruction)}")

    def _functions(self, wanted: str) -> Iterator[PatternMatch]:
        name = _TEMPLATE_ARGUMENTS.sub("", wanted).rstrip()
        if not _FUNCTION.fullmatch(name):
            return
        last = name.rpartition("::")[2]
        for symbol, instruction in self._ptx.calls():
            if is_named(name, symbol):
                yield self._at(instruction.location, last, f"call of '{demangled_name(symbol)}'")
        for symbol, site in self._ptx.inlined:
            if is_named(name, symbol):
                yield self._at(site, last, f"'{demangled_name(symbol)}' (inlined)")

    def _tokens(self, wanted: str, certain: bool) -> Iterator[PatternMatch]:
        if not wanted or wanted[0] in "%.":
            return
        for token in self._index.tokens(self._kernel, wanted):
            if self._counts(token, wanted, certain):
                yield PatternMatch(self._index.place(token.path, token.start, token.end), f"'{wanted}'")

    def _counts(self, token: SourceMatch, wanted: str, certain: bool) -> bool:
        """Return whether a source match counts.

        A call may be required to have instructions; a mention counts unless it can be a variable of that name.
        """
        if token.is_call or (_FUNCTION.fullmatch(wanted) and self._index.is_function(wanted)):
            return not certain or not self._live or any(key in self._live for key in self._statement(token))
        return not _FUNCTION.fullmatch(wanted) or _NOT_VARIABLES.fullmatch(wanted) is not None or "::" in wanted

    def _statement(self, token: SourceMatch) -> Iterator[tuple[str, int]]:
        """Yield (path, 0-based line) of each line of the statement around a source match."""
        clean = self._index.texts[token.path].clean
        line = clean.count("\n", 0, token.start)
        behind = max(clean.rfind(sign, 0, token.start) for sign in ";{}") + 1
        ends = [found for sign in ";{}" if (found := clean.find(sign, token.end)) >= 0]
        first = line - clean[behind : token.start].lstrip().count("\n")
        last = line + clean.count("\n", token.start, min(ends, default=token.end))
        for each in range(max(first, line - _MOST_LINES), min(last, line + _MOST_LINES) + 1):
            yield token.path, each

    def _at(self, location: Location | None, word: str | None, what: str) -> PatternMatch:
        for path, line in self._places(location):
            near = self._index.find_near(path, line, word) if word else None
            start, end = near or self._index.line(path, line)
            return PatternMatch(self._index.place(path, start, end), what)
        return PatternMatch(None, what)

    def _places(self, location: Location | None) -> Iterator[tuple[str, int]]:
        """Yield (path, 0-based line) of a location in the user's files, innermost first."""
        while location is not None:
            path = self._paths.get(os.path.normpath(self._ptx.files.get(location.file, "")))
            if path is not None:
                yield path, location.line - 1
            location = location.inlined_at


def _shown(instruction: Instruction) -> str:
    guard = instruction.guard
    return f"{instruction.name} (predicated)" if guard is not None else instruction.name

"""Find what a pattern of ``artifact_checks`` means: an instruction, a function, an intrinsic, a piece of source."""

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
_SPELLED_OUT = re.compile(
    r"__\w+|[A-Z][A-Z0-9_]*|[a-z]+(?:2|3|4|16|32|64)(?:_t)?|alignas|asm|auto|bool|const|double|float|goto|half|inline"
    r"|int|long|new|delete|register|short|static|unsigned|virtual|volatile"
)
_MOST_LINES = 8


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """One line where a pattern is met; ``what`` says what stands there. ``place`` is None when no line is known."""

    place: Place | None
    what: str


class PatternSearch:
    """Looks patterns up in one kernel. ``kernel`` is its plain name where it stands in a header."""

    def __init__(self, trace: KernelPtx, code: SourceIndex, kernel: KernelDecl | str) -> None:
        self._trace, self._code, self._kernel = trace, code, kernel
        self._paths = {os.path.normpath(path): path for path in code.texts}
        self._live = {place for instruction in trace.instructions for place in self._places(instruction.location)}

    def find(self, pattern: str, certain: bool) -> tuple[PatternMatch, ...]:
        """Return where a pattern is met, one hit per line, in the order of the text.

        ``certain`` leaves out calls in the source whose statement left no code behind: they may never be compiled, or
        be folded into what surrounds them. What is forbidden must certainly be there to be reported, what is required
        must certainly be absent.
        """
        wanted = _CALL_SUFFIX.sub("", pattern.strip())
        lines: dict[tuple[str, int], PatternMatch] = {}
        for hit in self._hits(wanted, certain):
            key = (hit.place.path, hit.place.range.start.line) if hit.place else ("", 0)
            lines.setdefault(key, hit)
        if len(lines) > 1:
            lines.pop(("", 0), None)
        return tuple(hit for _, hit in sorted(lines.items(), key=lambda item: item[0]))

    def _hits(self, wanted: str, certain: bool) -> Iterator[PatternMatch]:
        known = INTRINSIC_TRACES.get(wanted)
        if known is not None:
            for instruction in self._trace.instructions:
                if any(matches(pattern, instruction) for pattern in known.instructions):
                    yield self._at(instruction.location, wanted, f"'{wanted}' ({instruction.name})")
            for name, instruction in self._trace.calls():
                if name in known.calls:
                    yield self._at(instruction.location, wanted, f"'{wanted}' (a call of {name})")
            return
        yield from self._functions(wanted)
        yield from self._tokens(wanted, certain)
        if _INSTRUCTION.fullmatch(wanted):
            for instruction in self._trace.instructions:
                if matches(wanted, instruction):
                    yield self._at(instruction.location, None, f"the instruction {_shown(instruction)}")

    def _functions(self, wanted: str) -> Iterator[PatternMatch]:
        name = _TEMPLATE_ARGUMENTS.sub("", wanted).rstrip()
        if not _FUNCTION.fullmatch(name):
            return
        last = name.rpartition("::")[2]
        for symbol, instruction in self._trace.calls():
            if is_named(name, symbol):
                yield self._at(instruction.location, last, f"a call of '{demangled_name(symbol)}'")
        for symbol, site in self._trace.inlined:
            if is_named(name, symbol):
                yield self._at(site, last, f"'{demangled_name(symbol)}', inlined")

    def _tokens(self, wanted: str, certain: bool) -> Iterator[PatternMatch]:
        if not wanted or wanted[0] in "%.":
            return
        for token in self._code.tokens(self._kernel, wanted):
            if self._counts(token, wanted, certain):
                yield PatternMatch(self._code.place(token.path, token.start, token.end), f"'{wanted}'")

    def _counts(self, token: SourceMatch, wanted: str, certain: bool) -> bool:
        """A call may have to have left code behind; a bare mention counts where it can mean nothing else."""
        if token.is_call or (_FUNCTION.fullmatch(wanted) and self._code.is_function(wanted)):
            return not certain or not self._live or any(key in self._live for key in self._statement(token))
        return not _FUNCTION.fullmatch(wanted) or _SPELLED_OUT.fullmatch(wanted) is not None or "::" in wanted

    def _statement(self, token: SourceMatch) -> Iterator[tuple[str, int]]:
        """Yield (path, 0-based line) of each line of the statement round a token."""
        clean = self._code.texts[token.path].clean
        line = clean.count("\n", 0, token.start)
        behind = max(clean.rfind(sign, 0, token.start) for sign in ";{}") + 1
        ends = [found for sign in ";{}" if (found := clean.find(sign, token.end)) >= 0]
        first = line - clean[behind : token.start].lstrip().count("\n")
        last = line + clean.count("\n", token.start, min(ends, default=token.end))
        for each in range(max(first, line - _MOST_LINES), min(last, line + _MOST_LINES) + 1):
            yield token.path, each

    def _at(self, location: Location | None, word: str | None, what: str) -> PatternMatch:
        for path, line in self._places(location):
            near = self._code.find_near(path, line, word) if word else None
            start, end = near or self._code.line(path, line)
            return PatternMatch(self._code.place(path, start, end), what)
        return PatternMatch(None, what)

    def _places(self, location: Location | None) -> Iterator[tuple[str, int]]:
        """Yield (path, 0-based line) of a location in the user's files, innermost first."""
        while location is not None:
            path = self._paths.get(os.path.normpath(self._trace.files.get(location.file, "")))
            if path is not None:
                yield path, location.line - 1
            location = location.inlined_at


def _shown(instruction: Instruction) -> str:
    guard = instruction.guard
    return f"{instruction.name} (predicated)" if guard is not None else instruction.name

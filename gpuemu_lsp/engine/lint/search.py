"""Find what a pattern of ``artifact_checks`` means: an instruction, a function, an intrinsic, a piece of source."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from gpuemu_lsp.engine.findings import Place
from gpuemu_lsp.engine.lint.code import Code, Token
from gpuemu_lsp.engine.lint.instructions import is_machine_opcode, matches
from gpuemu_lsp.engine.lint.intrinsics import TRACES
from gpuemu_lsp.engine.lint.trace import PtxTrace, is_named
from gpuemu_lsp.engine.ptx.model import Instruction, Location
from gpuemu_lsp.engine.ptx.names import source_name
from gpuemu_lsp.engine.source.model import KernelDecl

_CALL_SUFFIX = re.compile(r"\s*\(\s*\)?$")
_TEMPLATE_ARGUMENTS = re.compile(r"<.*>$", re.S)
_FUNCTION = re.compile(r"[A-Za-z_]\w*(?:::\w+)*")
_INSTRUCTION = re.compile(r"[%.\w:*]+")
_SPELLED_OUT = re.compile(
    r"__\w+|[A-Z][A-Z0-9_]*|[a-z]+(?:2|3|4|16|32|64)(?:_t)?|alignas|asm|auto|bool|const|double|float|goto|half|inline"
    r"|int|long|new|delete|register|short|static|unsigned|virtual|volatile"
)
_LOOK_BACK = 8


@dataclass(frozen=True, slots=True)
class Hit:
    """One line where a pattern is met; ``what`` says what stands there. ``place`` is None when no line is known."""

    place: Place | None
    what: str


class Search:
    """Looks patterns up in one kernel. ``kernel`` is its plain name where it stands in a header."""

    def __init__(self, trace: PtxTrace, code: Code, kernel: KernelDecl | str) -> None:
        self._trace, self._code, self._kernel = trace, code, kernel
        self._paths = {os.path.normpath(path): path for path in code.texts}
        self._live = {place[:2] for instruction in trace.instructions for place in self._places(instruction.location)}

    def find(self, pattern: str) -> tuple[Hit, ...]:
        """Return where a pattern is met, one hit per line, in the order of the text."""
        wanted = _CALL_SUFFIX.sub("", pattern.strip())
        lines: dict[tuple[str, int], Hit] = {}
        for hit in self._hits(wanted):
            key = (hit.place.path, hit.place.range.start.line) if hit.place else ("", 0)
            lines.setdefault(key, hit)
        if len(lines) > 1:
            lines.pop(("", 0), None)
        return tuple(hit for _, hit in sorted(lines.items(), key=lambda item: item[0]))

    @staticmethod
    def can_tell(pattern: str) -> bool:
        """Whether the absence of a pattern means anything: a SASS instruction shows in no PTX."""
        return not is_machine_opcode(pattern)

    def _hits(self, wanted: str) -> Iterator[Hit]:
        known = TRACES.get(wanted)
        if known is not None:
            for instruction in self._trace.instructions:
                if any(matches(pattern, instruction) for pattern in known.instructions):
                    yield self._at(instruction.location, wanted, f"'{wanted}' ({instruction.name})")
            for name, instruction in self._trace.calls():
                if name in known.calls:
                    yield self._at(instruction.location, wanted, f"'{wanted}' (a call of {name})")
            return
        yield from self._functions(wanted)
        yield from self._tokens(wanted)
        if _INSTRUCTION.fullmatch(wanted):
            for instruction in self._trace.instructions:
                if matches(wanted, instruction):
                    yield self._at(instruction.location, None, f"the instruction {_shown(instruction)}")

    def _functions(self, wanted: str) -> Iterator[Hit]:
        name = _TEMPLATE_ARGUMENTS.sub("", wanted).rstrip()
        if not _FUNCTION.fullmatch(name):
            return
        last = name.rpartition("::")[2]
        for symbol, instruction in self._trace.calls():
            if is_named(name, symbol):
                yield self._at(instruction.location, last, f"a call of '{source_name(symbol)}'")
        for symbol, site in self._trace.inlined:
            if is_named(name, symbol):
                yield self._at(site, last, f"'{source_name(symbol)}', inlined")

    def _tokens(self, wanted: str) -> Iterator[Hit]:
        if not wanted or wanted[0] in "%.":
            return
        for token in self._code.tokens(self._kernel, wanted):
            if self._counts(token, wanted):
                yield Hit(self._code.place(token.path, token.start, token.end), f"'{wanted}'")

    def _counts(self, token: Token, wanted: str) -> bool:
        """A call counts where its statement left code behind; a bare mention where it can mean nothing else."""
        if token.is_call or (_FUNCTION.fullmatch(wanted) and self._code.is_function(wanted)):
            return not self._live or any((token.path, line) in self._live for line in self._statement(token))
        return not _FUNCTION.fullmatch(wanted) or _SPELLED_OUT.fullmatch(wanted) is not None or "::" in wanted

    def _statement(self, token: Token) -> Iterable[int]:
        """Yield the lines of the statement that ends with a token's line, nearest first."""
        clean = self._code.texts[token.path].clean
        line = clean.count("\n", 0, token.start)
        behind = max(clean.rfind(sign, 0, token.start) for sign in ";{}") + 1
        first = line - clean[behind : token.start].lstrip().count("\n")
        return range(line, max(first, line - _LOOK_BACK) - 1, -1)

    def _at(self, location: Location | None, word: str | None, what: str) -> Hit:
        for path, line, _ in self._places(location):
            near = self._code.find_near(path, line, word) if word else None
            start, end = near or self._code.line(path, line)
            return Hit(self._code.place(path, start, end), what)
        return Hit(None, what)

    def _places(self, location: Location | None) -> Iterator[tuple[str, int, int]]:
        """Yield (path, 0-based line, column) of a location in the user's files, innermost first."""
        while location is not None:
            path = self._paths.get(os.path.normpath(self._trace.files.get(location.file, "")))
            if path is not None:
                yield path, location.line - 1, location.column
            location = location.inlined_at


def _shown(instruction: Instruction) -> str:
    guard = instruction.guard
    return f"{instruction.name} (predicated)" if guard is not None else instruction.name

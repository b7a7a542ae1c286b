"""From the compiler's messages to findings on exact tokens of the user's files."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpuemu_lsp.engine.compile.include_closure import IncludeClosure, read_text
from gpuemu_lsp.engine.compile.messages import CompilerMessage, DiagnosticNote, LogPosition
from gpuemu_lsp.engine.compile.toolchain import cuda_include_dirs, toolchain_major
from gpuemu_lsp.engine.compile.view_warnings import is_caused_by_view
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range, Related
from gpuemu_lsp.engine.rules import make

_TOKEN = re.compile(
    rb"[A-Za-z_$\x80-\xff][\w$\x80-\xff]*"  # identifier
    rb"|\.?\d(?:[eEpP][+-]|['\w.])*"  # number
    rb'|"(?:\\.|[^"\\\n])*"'  # string
    rb"|'(?:\\.|[^'\\\n])*'"  # character
    rb"|<<<|>>>|<<=|>>=|\.\.\.|->\*|::|->|\+\+|--|&&|\|\||[-+*/%^&|=!<>]=|<<|>>|##"
    rb"|[^\s]"
)
_MISSING = re.compile(r'^cannot open source file "(?P<name>[^"]+)"')
_DYNAMIC_PARALLELISM = "device-side kernel launch could not be processed"
_NAME_MAP = "__nv_name_map"
_EXPRESSION = "#pragma nv_mangled_name "
_HEX_BYTES = re.compile(r"0x[0-9a-fA-F]+(?= bytes| max)")
_ENTRY = re.compile(r"(?:Entry function|entry function|Unresolved extern function) '(?P<name>[^']+)'")


@dataclass(frozen=True, slots=True)
class DiagnosticSources:
    """What the findings of one compilation may point at: the user's texts and how each is reached."""

    main: str
    origin: Place
    options: Place
    found: IncludeClosure

    def text_of(self, path: str) -> str | None:
        """Return the text of a user's file, None for a file that is not the user's: ours, or CUDA's.

        A header that a computed include found is not in the closure, but the user's all the same.
        """
        if path in self.found.texts or path.startswith(cuda_include_dirs()) or not PurePosixPath(path).is_absolute():
            return self.found.texts.get(path)
        return read_text(path)

    def entrance(self, path: str) -> Place | None:
        """Return the user's directive that leads to a file: a user's header, or one of CUDA's as far as can be told."""
        if path in self.found.included_at:
            return self.found.included_at[path]
        candidates = [(_nearness(directive.target, path), place) for directive, place in self.found.foreign]
        return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def findings(messages: Sequence[CompilerMessage], sources: DiagnosticSources) -> tuple[Finding, ...]:
    """Turn messages into findings, one each, without duplicates.

    Messages about name expressions and warnings that are due to our own view of the file are left out.
    """
    made: dict[tuple[object, ...], Finding] = {}
    for message in messages:
        if (
            about_expression(message)
            or _only_says_that_others_failed(message, messages)
            or is_caused_by_view(message, _text_around(message, sources))
        ):
            continue
        item = _finding(message, sources)
        # A header of CUDA's that does not compile is one finding on its include, not a hundred.
        foreign = message.spot is not None and sources.text_of(message.spot.path) is None
        made.setdefault((item.rule, item.place, None if foreign else item.message), item)
    return tuple(made.values())


def _only_says_that_others_failed(message: CompilerMessage, messages: Sequence[CompilerMessage]) -> bool:
    return (
        message.text.startswith("Ptx assembly aborted") and len([item for item in messages if item.kind == "error"]) > 1
    )


def _text_around(message: CompilerMessage, sources: DiagnosticSources) -> str | None:
    return sources.text_of(message.spot.path) if message.spot is not None else None


def about_expression(message: CompilerMessage) -> bool:
    """Return whether the message is about a requested name expression, not about the text."""
    return message.spot is not None and message.spot.path == _NAME_MAP


def bad_expressions(messages: Sequence[CompilerMessage], expressions: Sequence[str]) -> Mapping[str, str]:
    """Return the requested name expressions that the compiler could not resolve, each with the first reason."""
    bad: dict[str, str] = {}
    for message in messages:
        if about_expression(message) and message.echo.startswith(_EXPRESSION):
            expression = message.echo.removeprefix(_EXPRESSION).strip()
            if expression in expressions:
                bad.setdefault(expression, message.text)
    return bad


def _finding(message: CompilerMessage, sources: DiagnosticSources) -> Finding:
    place, outwards = _user_place(message, sources)
    related = [*outwards, *(_related(note, sources) for note in message.notes)]
    data: dict[str, Json] = {"tool": message.tool}
    if message.number is not None:
        data["number"] = message.number
    text = message.text
    if message.spot is not None and sources.text_of(message.spot.path) is None:
        if message.spot.path.startswith(cuda_include_dirs()) and _through(message, sources) is None:
            data["library"] = PurePosixPath(message.spot.path).name
        text = f"in {PurePosixPath(message.spot.path).name}, line {message.spot.line}: {text}"
    if message.tool == "ptxas":
        text = "ptxas: " + _HEX_BYTES.sub(lambda match: str(int(match[0], 16)), text)
    rule = "compile/warning" if message.kind == "warning" else "compile/error"
    if message.text.startswith(_DYNAMIC_PARALLELISM):
        rule, text = "engine/unsupported-instruction", "kernels that launch kernels cannot be compiled by NVRTC alone"
    if message.options:
        rule, place = "config/bad-value", sources.options
    if missing := _MISSING.match(message.text):
        rule = "compile/missing-header"
        text = f'header "{missing["name"]}" was not found; {_hint(missing["name"])}'
        data["header"] = missing["name"]
    return make(rule, text, place, data=data, related=tuple(item for item in related if item is not None))


def _hint(header: str) -> str:
    if header.startswith("curand"):
        return f"it comes with cuRAND: pip install nvidia-curand-cu{toolchain_major()}"
    return "add its folder to `include_dirs`"


def _user_place(message: CompilerMessage, sources: DiagnosticSources) -> tuple[Place, list[Related | None]]:
    """Return the place for a finding: the spot itself in a user's file, else where the foreign file is included."""
    spot = message.spot
    if spot is None and message.at_end:
        return _last_line(sources), []
    if spot is None:
        return _kernel_place(message, sources) or sources.origin, []
    if sources.text_of(spot.path) is None:
        if (through := _through(message, sources)) is not None:
            return _place(through, sources), []
        return sources.entrance(spot.path) or sources.origin, []
    place = _place(spot, sources)
    if missing := _MISSING.match(message.text):
        place = _target_place(place, missing["name"], sources)
    include = sources.entrance(spot.path) if spot.path != sources.main else None
    return place, [Related(include, "included here")] if include is not None else []


def _through(message: CompilerMessage, sources: DiagnosticSources) -> LogPosition | None:
    """Return the user's line that made a library's template of CUDA's go wrong, as the instantiation chain tells.

    Thrust is not made for NVRTC, so what goes wrong in it is nobody's mistake.
    """
    if message.spot is None or "/thrust/" in message.spot.path:
        return None
    return next((note.spot for note in message.notes if sources.text_of(note.spot.path) is not None), None)


def _last_line(sources: DiagnosticSources) -> Place:
    text = sources.found.texts[sources.main].rstrip()
    return Place(sources.main, token_range(text, text.count("\n"), None))


def _kernel_place(message: CompilerMessage, sources: DiagnosticSources) -> Place | None:
    """Return the name token of the function that ptxas names by its mangled name."""
    match = _ENTRY.search(message.text)
    if match is None:
        return None
    for path, text in sources.found.texts.items():
        for name in re.finditer(r"\b([A-Za-z_]\w*)\s*\(", text):
            if match["name"] == name[1] or f"{len(name[1])}{name[1]}" in match["name"]:
                line = text.count("\n", 0, name.start())
                column = len(text[text.rfind("\n", 0, name.start()) + 1 : name.start()].encode(errors="replace"))
                return Place(path, Range.of(line, column, line, column + len(name[1])))
    return None


def _target_place(place: Place, target: str, sources: DiagnosticSources) -> Place:
    for directive, where in sources.found.foreign:
        if directive.target == target and where.path == place.path and where.range.start.line == place.range.start.line:
            return where
    return place


def _related(note: DiagnosticNote, sources: DiagnosticSources) -> Related | None:
    return Related(_place(note.spot, sources), note.text) if sources.text_of(note.spot.path) is not None else None


def _place(spot: LogPosition, sources: DiagnosticSources) -> Place:
    return Place(spot.path, token_range(sources.text_of(spot.path) or "", spot.line - 1, spot.column))


def _nearness(target: str, path: str) -> int:
    """Rate how likely ``#include <target>`` leads to ``path``: itself, the same library, a library at all."""
    if path.endswith("/" + target):
        return 3
    if "/" in target:
        return 2 if f"/{target.partition('/')[0]}/" in path else 1
    return 0


def token_range(text: str, line: int, column: int | None) -> Range:
    """Return the range of the token at a 0-based line and byte column; the whole trimmed line without a column."""
    lines = text.encode(errors="replace").split(b"\n")
    if not 0 <= line < len(lines):
        return Range.of(max(line, 0), 0, max(line, 0), 0)
    raw = lines[line].rstrip()
    if column is None:
        return Range.of(line, len(raw) - len(raw.lstrip()), line, len(raw))
    column = min(column, len(raw))
    # The compiler steps through a character it does not know byte by byte.
    while 0 < column < len(raw) and raw[column] >= 0x80 and raw[column - 1] >= 0x80:
        column -= 1
    token = _TOKEN.match(raw, column)
    return Range.of(line, column, line, token.end() if token is not None else min(column + 1, len(raw)))

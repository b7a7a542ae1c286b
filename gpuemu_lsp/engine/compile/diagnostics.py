"""Compiler messages as findings on tokens of the user's files."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath

from gpuemu_lsp.engine.cause import Cause, ErrorTrait
from gpuemu_lsp.engine.compile.error_traits import traits_of, undeclared_name
from gpuemu_lsp.engine.compile.include_closure import IncludeClosure
from gpuemu_lsp.engine.compile.messages import CompilerMessage, DiagnosticNote, LogPosition
from gpuemu_lsp.engine.compile.toolchain import cuda_include_dirs, toolchain_major
from gpuemu_lsp.engine.compile.view_warnings import is_caused_by_view
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range, Related, Role
from gpuemu_lsp.engine.kernel_names import name_expression
from gpuemu_lsp.engine.regular_file import readable_text
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
    """The user's texts of one compilation, and the include that leads to each file."""

    main: str
    origin: Place
    options: Place
    includes: IncludeClosure

    def text_of(self, path: str) -> str | None:
        """Return the text of a user's file; None for the prelude, stub headers and CUDA's headers.

        The header of a computed include is not in the closure, but on disk.
        """
        if path in self.includes.texts or path.startswith(cuda_include_dirs()) or not PurePosixPath(path).is_absolute():
            return self.includes.texts.get(path)
        return readable_text(path)

    def include_of(self, path: str) -> Place | None:
        """Return the user's include directive that leads to a header; for a header of CUDA the most similar target."""
        if path in self.includes.included_at:
            return self.includes.included_at[path]
        candidates = [(_match_score(directive.target, path), place) for directive, place in self.includes.foreign]
        return max(candidates, key=lambda candidate: candidate[0])[1] if candidates else None


def findings(messages: Sequence[CompilerMessage], sources: DiagnosticSources) -> tuple[Finding, ...]:
    """Return one finding per message, without duplicates.

    Messages about name expressions and warnings that the device view causes are omitted.
    """
    made: dict[tuple[object, ...], Finding] = {}
    for message in messages:
        if (
            concerns_expression(message)
            or _is_consequential(message, messages)
            or is_caused_by_view(message, _text_around(message, sources))
        ):
            continue
        item = _finding(message, sources)
        # All errors inside one CUDA header are one finding, on its include.
        foreign = message.position is not None and sources.text_of(message.position.path) is None
        made.setdefault((item.rule, item.place, None if foreign else item.message), item)
    return tuple(made.values())


def _is_consequential(message: CompilerMessage, messages: Sequence[CompilerMessage]) -> bool:
    return (
        message.text.startswith("Ptx assembly aborted") and len([item for item in messages if item.kind == "error"]) > 1
    )


def _text_around(message: CompilerMessage, sources: DiagnosticSources) -> str | None:
    return sources.text_of(message.position.path) if message.position is not None else None


def concerns_expression(message: CompilerMessage) -> bool:
    """Return whether the message concerns a requested name expression rather than the text."""
    return message.position is not None and message.position.path == _NAME_MAP


def bad_expressions(messages: Sequence[CompilerMessage], expressions: Sequence[str]) -> Mapping[str, str]:
    """Return the kernels' names that NVRTC could not resolve, each with its first message."""
    bad: dict[str, str] = {}
    named = {name_expression(entry): entry for entry in expressions}
    for message in messages:
        if concerns_expression(message) and message.echo.startswith(_EXPRESSION):
            expression = message.echo.removeprefix(_EXPRESSION).strip()
            if expression in named:
                bad.setdefault(named[expression], message.text)
    return bad


def _finding(message: CompilerMessage, sources: DiagnosticSources) -> Finding:
    place, outwards = _user_place(message, sources)
    related = [*outwards, *(_related(note, sources) for note in message.notes)]
    data: dict[str, Json] = {"tool": message.tool}
    if message.number is not None:
        data["number"] = message.number
    text = message.text
    if message.position is not None and sources.text_of(message.position.path) is None:
        if message.position.path.startswith(cuda_include_dirs()) and _instantiation_position(message, sources) is None:
            data["library"] = PurePosixPath(message.position.path).name
        text = f"in {PurePosixPath(message.position.path).name}:{message.position.line}: {text}"
    if message.tool == "ptxas":
        text = "ptxas: " + _HEX_BYTES.sub(lambda match: str(int(match[0], 16)), text)
    rule, cause = "compile/warning" if message.kind == "warning" else "compile/error", None
    if message.text.startswith(_DYNAMIC_PARALLELISM):
        rule, cause = "engine/unsupported-instruction", Cause.DEVICE_RUNTIME
        text = "dynamic parallelism (a kernel launch in device code) is not supported"
    if message.options:
        rule, place = "config/bad-value", sources.options
    if missing := _MISSING.match(message.text):
        rule = "compile/missing-header"
        text = f"'{missing['name']}' file not found; {_hint(missing['name'])}"
        data["header"] = missing["name"]
    traits = traits_of(text) if rule == "compile/error" else frozenset()
    if ErrorTrait.UNDECLARED in traits and (name := undeclared_name(text)) is not None:
        data["name"] = name
    shown = tuple(item for item in related if item is not None)
    return make(rule, text, place, data=data, related=shown, traits=traits, cause=cause)


def _hint(header: str) -> str:
    if header.startswith("curand"):
        return f"install cuRAND: pip install nvidia-curand-cu{toolchain_major()}"
    return "add its directory to `include_dirs`"


def _user_place(message: CompilerMessage, sources: DiagnosticSources) -> tuple[Place, list[Related | None]]:
    """Return the place for a finding, which is always in a user's file, and its related include."""
    position = message.position
    if position is None and message.at_end:
        return _last_line(sources), []
    if position is None:
        return _kernel_place(message, sources) or sources.origin, []
    if sources.text_of(position.path) is None:
        if (instantiation := _instantiation_position(message, sources)) is not None:
            return _place(instantiation, sources), []
        return sources.include_of(position.path) or sources.origin, []
    place = _place(position, sources)
    if missing := _MISSING.match(message.text):
        place = _target_place(place, missing["name"], sources)
    return place, [*_include_chain(position.path, sources)]


def _include_chain(path: str, sources: DiagnosticSources) -> Iterator[Related]:
    """Yield the includes that lead to a header, the innermost first, the last one in the compiled file."""
    seen = set()
    while path != sources.main and path not in seen:
        seen.add(path)
        include = sources.include_of(path)
        if include is None:
            return
        yield Related(include, "included here", Role.INCLUDE)
        path = include.path


def _instantiation_position(message: CompilerMessage, sources: DiagnosticSources) -> LogPosition | None:
    """Return the first user's line in the instantiation chain of an error inside a template of CUDA's headers.

    None for Thrust: NVRTC does not support it, so the user's instantiation is not the cause.
    """
    if message.position is None or "/thrust/" in message.position.path:
        return None
    return next((note.position for note in message.notes if sources.text_of(note.position.path) is not None), None)


def _last_line(sources: DiagnosticSources) -> Place:
    text = sources.includes.texts[sources.main].rstrip()
    return Place(sources.main, token_range(text, text.count("\n"), None))


def _kernel_place(message: CompilerMessage, sources: DiagnosticSources) -> Place | None:
    """Return the name token of the function whose mangled name is in a ptxas message."""
    match = _ENTRY.search(message.text)
    if match is None:
        return None
    for path, text in sources.includes.texts.items():
        for name in re.finditer(r"\b([A-Za-z_]\w*)\s*\(", text):
            if match["name"] == name[1] or f"{len(name[1])}{name[1]}" in match["name"]:
                line = text.count("\n", 0, name.start())
                column = len(text[text.rfind("\n", 0, name.start()) + 1 : name.start()].encode(errors="replace"))
                return Place(path, Range.of(line, column, line, column + len(name[1])))
    return None


def _target_place(place: Place, target: str, sources: DiagnosticSources) -> Place:
    for directive, where in sources.includes.foreign:
        if directive.target == target and where.path == place.path and where.range.start.line == place.range.start.line:
            return where
    return place


def _related(note: DiagnosticNote, sources: DiagnosticSources) -> Related | None:
    return (
        Related(_place(note.position, sources), note.text) if sources.text_of(note.position.path) is not None else None
    )


def _place(position: LogPosition, sources: DiagnosticSources) -> Place:
    return Place(position.path, token_range(sources.text_of(position.path) or "", position.line - 1, position.column))


def _match_score(target: str, path: str) -> int:
    """Return how likely ``#include <target>`` leads to ``path``: 3 the file itself, 2 its library, 1 any library."""
    if path.endswith("/" + target):
        return 3
    if "/" in target:
        return 2 if f"/{target.partition('/')[0]}/" in path else 1
    return 0


def token_range(text: str, line: int, column: int | None) -> Range:
    """Return the range of the token at a 0-based line and byte column; without a column, of the trimmed line."""
    lines = text.encode(errors="replace").split(b"\n")
    if not 0 <= line < len(lines):
        return Range.of(max(line, 0), 0, max(line, 0), 0)
    raw = lines[line].rstrip()
    if column is None:
        return Range.of(line, len(raw) - len(raw.lstrip()), line, len(raw))
    column = min(column, len(raw))
    # NVRTC reports each byte of an invalid UTF-8 character: the range is the whole character.
    while 0 < column < len(raw) and raw[column] >= 0x80 and raw[column - 1] >= 0x80:
        column -= 1
    token = _TOKEN.match(raw, column)
    return Range.of(line, column, line, token.end() if token is not None else min(column + 1, len(raw)))

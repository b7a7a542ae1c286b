"""From the compiler's messages to findings on exact tokens of the user's files."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuemu_lsp.engine.compile.messages import Message, Note, Spot
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
_NAME_MAP = "__nv_name_map"


@dataclass(frozen=True, slots=True)
class Sources:
    """What the findings of one compilation may point at.

    ``text_of`` gives the text of a user's file by absolute path, None for a file that is not the user's (our shims,
    CUDA's headers). ``included_at`` leads from such a file, or from a user's header, to the place that includes it.
    """

    main: str
    origin: Place
    text_of: Callable[[str], str | None]
    included_at: Callable[[str], Place | None]


def findings(messages: Sequence[Message], sources: Sources) -> tuple[Finding, ...]:
    """Turn messages into findings, one each, without duplicates; messages about name expressions are left out."""
    made = (_finding(message, sources) for message in messages if not about_expression(message))
    return tuple({(item.rule, item.place, item.message): item for item in made}.values())


def about_expression(message: Message) -> bool:
    """Say whether the message is about a requested name expression, not about the text."""
    return message.spot is not None and message.spot.path == _NAME_MAP


def _finding(message: Message, sources: Sources) -> Finding:
    place, outwards = _user_place(message.spot, sources)
    related = [*outwards, *(_related(note, sources) for note in message.notes)]
    data: dict[str, Json] = {"tool": message.tool}
    if message.number is not None:
        data["number"] = message.number
    text = message.text if message.tool == "nvrtc" else f"ptxas: {message.text}"
    rule = "compile/warning" if message.kind == "warning" else "compile/error"
    if missing := _MISSING.match(message.text):
        rule = "compile/missing-header"
        text = f'header "{missing["name"]}" was not found; add its folder to `include_dirs`'
        data["header"] = missing["name"]
    return make(rule, text, place, data=data, related=tuple(item for item in related if item is not None))


def _user_place(spot: Spot | None, sources: Sources) -> tuple[Place, list[Related | None]]:
    """Return the place for a finding: the spot itself in a user's file, else where the foreign file is included."""
    if spot is None:
        return sources.origin, []
    if sources.text_of(spot.path) is not None:
        include = sources.included_at(spot.path) if spot.path != sources.main else None
        return _place(spot, sources), [Related(include, "included here")] if include is not None else []
    return sources.included_at(spot.path) or sources.origin, []


def _related(note: Note, sources: Sources) -> Related | None:
    return Related(_place(note.spot, sources), note.text) if sources.text_of(note.spot.path) is not None else None


def _place(spot: Spot, sources: Sources) -> Place:
    return Place(spot.path, token_range(sources.text_of(spot.path) or "", spot.line - 1, spot.column))


def token_range(text: str, line: int, column: int | None) -> Range:
    """Return the range of the token at a 0-based line and byte column; the whole trimmed line without a column."""
    lines = text.encode(errors="surrogatepass").split(b"\n")
    if not 0 <= line < len(lines):
        return Range.of(max(line, 0), 0, max(line, 0), 0)
    raw = lines[line].rstrip()
    if column is None:
        return Range.of(line, len(raw) - len(raw.lstrip()), line, len(raw))
    column = min(column, len(raw))
    token = _TOKEN.match(raw, column)
    return Range.of(line, column, line, token.end() if token is not None else min(column + 1, len(raw)))

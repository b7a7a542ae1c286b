"""Findings of a Triton launch, on lines of the ``.py`` file.

A race between threads of one program is not the author's: Triton's programs have no threads, and its compiler lays out
shared memory and lets several threads store one element. So only races between programs are reported.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path

import triton

from gpuemu_lsp.engine.execution import Event, Outcome, Request
from gpuemu_lsp.engine.findings import Finding, Json, Place, Range, Related
from gpuemu_lsp.engine.ptx.parser import parse
from gpuemu_lsp.engine.rules import make
from gpuemu_lsp.engine.subjects.source_map import SourceMap

_TRITON = Path(triton.__file__).parent


def launch_findings(request: Request, outcome: Outcome) -> tuple[Finding, ...]:
    """Return what the checkers found in a launch."""
    events = [event for event in outcome.events if not _is_within_program(event)]
    if not events:
        return ()
    files = parse(request.artifact.ptx).files
    fallback = Place(next(iter(filter(_user_text, files.values())), ""), Range.of(0, 0, 0, 1))
    source_map = SourceMap(files, _user_text, fallback)
    return tuple(_merged(_finding(event, source_map, request) for event in events))


def _is_within_program(event: Event) -> bool:
    """Whether the event is a race between threads of one program."""
    if event.rule == "memory/shared-race":
        return True
    return event.rule == "memory/global-race" and list(event.block or ()) == event.data.get("other_block")


def _finding(event: Event, source_map: SourceMap, request: Request) -> Finding:
    place, related = source_map.place(event.location)
    if event.other is not None:
        related = (Related(source_map.place(event.other)[0], "the other access"), *related)
    data: dict[str, Json] = {"instruction": event.instruction, "count": event.count, **event.data}
    if event.block is not None:
        data["program"] = list(event.block)
    if event.buffer is not None:
        data["buffer"] = event.buffer
    data["grid"] = list(request.grid)
    found = make(event.rule, event.message, place, kernel=request.entry, arch=request.artifact.arch, data=data)
    return replace(found, related=related)


def _merged(findings: Iterable[Finding]) -> Iterable[Finding]:
    """Return the findings, each rule once per line: one vector load is many instructions."""
    kept: dict[tuple[str, str, int], Finding] = {}
    for finding in findings:
        key = finding.rule, finding.place.path, finding.place.range.start.line
        known = kept.get(key)
        if known is None:
            kept[key] = finding
        else:
            counts = (known.data.get("count"), finding.data.get("count"))
            total = sum(count for count in counts if isinstance(count, int))
            kept[key] = replace(known, data={**known.data, "count": total})
    return kept.values()


@cache
def _user_text(path: str) -> str | None:
    """Return the text of a file of the user's; functions of Triton's library are inlined into it."""
    if Path(path).is_relative_to(_TRITON):
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None

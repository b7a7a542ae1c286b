"""Findings of a Triton launch, on lines of the ``.py`` file.

A race between threads of one program is not the author's: Triton's programs have no threads, and its compiler lays out
shared memory and lets several threads store one element. So only races between programs are reported.
"""

from __future__ import annotations

import re
from functools import cache, lru_cache
from pathlib import Path

import triton

from gpuemu.launches import findings_of
from gpuemu_lsp.engine.execution import Event, Outcome, Request
from gpuemu_lsp.engine.findings import Finding

_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_LOAD = re.compile(r"\bld\.global\S*\s+\{?\s*(%\w+)\s*\}?,\s*(\[[^\]]*\])")
_COMPARED = re.compile(r"\batom\S*\.cas\S*\s+%\w+,\s*(\[[^\]]*\]),\s*(%\w+)")
_TRITON = Path(triton.__file__).parent


def launch_findings(request: Request, outcome: Outcome) -> tuple[Finding, ...]:
    """Return what the checkers found in a launch."""
    events = [event for event in outcome.events if not _is_compared_again(event, request.artifact.ptx)]
    return findings_of(request, events, _user_text, threads=False)


def _is_compared_again(event: Event, ptx: str) -> bool:
    """Whether a race is that of a plain read with which a loop of compare-and-swap operations begins.

    The operation compares the value again, and the loop repeats if it has changed, so that the read has no consequence.
    True if every load of the read's line gives the expected value of a compare-and-swap at its own address.
    """
    if event.rule != "memory/global-race" or event.location is None or event.data.get("access") != "reads":
        return False
    if ".cas." not in str(event.data.get("other_instruction")):
        return False
    expected = set(_COMPARED.findall(ptx))
    loads = set(_loads(ptx).get((event.location.file, event.location.line), ()))
    return bool(loads) and loads <= expected


@lru_cache(maxsize=8)
def _loads(ptx: str) -> dict[tuple[int, int], list[tuple[str, str]]]:
    """Return address and destination of the loads from global memory by file and line of the source."""
    found: dict[tuple[int, int], list[tuple[str, str]]] = {}
    where = (0, 0)
    for line in ptx.splitlines():
        if location := _LOC.match(line):
            where = int(location[1]), int(location[2])
        elif load := _LOAD.search(line):
            found.setdefault(where, []).append((load[2], load[1]))
    return found


@cache
def _user_text(path: str) -> str | None:
    """Return the text of a file of the user's; functions of Triton's library are inlined into it."""
    if Path(path).is_relative_to(_TRITON):
        return None
    try:
        return Path(path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError):
        return None

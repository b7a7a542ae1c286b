"""Findings of a Triton launch, on lines of the ``.py`` file.

A race between threads of one program is not the author's: Triton's programs have no threads, and its compiler lays out
shared memory and lets several threads store one element. So only races between programs are reported.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import cache, lru_cache
from pathlib import Path

import numpy as np
import triton

from gpuemu.launches import findings_of
from gpuemu_lsp.engine.execution import Argument, Buffer, Event, Outcome, Request
from gpuemu_lsp.engine.findings import Finding

_ADDRESSES = 2**40, 2**47
"""Range of the addresses of a process under Linux; integers in tensors are rarely so large."""
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)")
_LOAD = re.compile(r"\bld\.global\S*\s+\{?\s*(%\w+)\s*\}?,\s*(\[[^\]]*\])")
_COMPARED = re.compile(r"\batom\S*\.cas\S*\s+%\w+,\s*(\[[^\]]*\]),\s*(%\w+)")
_TRITON = Path(triton.__file__).parent


def launch_findings(request: Request, outcome: Outcome) -> tuple[Finding, ...]:
    """Return what the checkers found in a launch."""
    events = [
        _of_unknown_address(event, request)
        for event in outcome.events
        if not _is_compared_again(event, request.artifact.ptx)
    ]
    return findings_of(request, events, _user_text, threads=False)


def _of_unknown_address(event: Event, request: Request) -> Event:
    """Return the event; as a launch that cannot run if a tensor holds addresses of other tensors.

    The emulator's addresses are not those of the process, so that ``data_ptr()`` of a tensor, kept in another one,
    leads nowhere: such an access is no error of the kernel.
    """
    if event.rule != "memory/out-of-bounds" or not any(map(_holds_addresses, request.arguments)):
        return event
    message = "a tensor holds addresses of other tensors, which is not supported: the kernel was not run to its end"
    return replace(event, rule="engine/not-executed", message=message)


def _holds_addresses(argument: Argument) -> bool:
    """Whether an argument is a tensor of 64-bit integers with one that looks like an address of the process."""
    if not isinstance(argument, Buffer) or argument.element_size != 8 or argument.data.nbytes % 8:
        return False
    values = argument.data.view(np.int64)
    return bool(((values > _ADDRESSES[0]) & (values < _ADDRESSES[1]) & (values % 4 == 0)).any())


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

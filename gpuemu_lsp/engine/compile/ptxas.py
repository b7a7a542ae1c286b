"""The resource report of ``--ptxas-options=-v`` in NVRTC's log.

Its numbers are those of the machine code; PTX has virtual registers and no spills.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache

from gpuemu_lsp.engine.compile.messages import LogPosition
from gpuemu_lsp.engine.compile.model import ResourceUsage

_ENTRY = re.compile(r"^ptxas info\s*: Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_PROPERTIES = re.compile(r"^ptxas info\s*: Function properties for (?P<name>\S+)")
_FRAME = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"^ptxas info\s*: Used (?P<registers>\d+) registers(?P<rest>.*)$")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")
_CONSTANT = re.compile(r"(\d+)(?:\+(\d+))? bytes cmem\[\d+\]")
_FUNCTION = re.compile(r"^[^/\n]*\.(?:entry|func)\s+(?:\([^)]*\)\s*)?([\w$]+)", re.MULTILINE)
_CALL = re.compile(r"\bcall(?:\.uni)?\s+(?:\([^)]*\)\s*,\s*)?([A-Za-z_$][\w$]*)")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_CUMULATIVE_STACK = re.compile(r"(\d+) bytes cumulative stack size")


@lru_cache(maxsize=2)  # the kernels of a file have one log
def resources(log: str, ptx: str = "") -> Mapping[str, ResourceUsage]:
    """Return the resource usage of each kernel, by mangled name.

    Device functions that are not inlined have reports of their own. By the call graph in ``ptx``, their spills are
    added to every kernel that can call them, and their stack frames along the deepest chain of calls.
    """
    own: dict[str, tuple[int, int, int]] = {}
    used: dict[str, tuple[int, str]] = {}
    entry = subject = None
    for line in log.split("\n"):
        if match := _ENTRY.match(line):
            entry = match["name"]
        elif match := _PROPERTIES.match(line):
            subject = match["name"]
        elif (match := _FRAME.search(line)) and subject is not None:
            own[subject] = (int(match["stack"]), int(match["stores"]), int(match["loads"]))
        elif (match := _USED.match(line)) and entry is not None:
            used[entry] = (int(match["registers"]), match["rest"])
            entry = None
    calls = _calls(ptx) if any(name not in used for name in own) else {}
    return {name: _usage(name, *used[name], own, calls) for name in used}


def _calls(ptx: str) -> Mapping[str, frozenset[str]]:
    """Return the direct callees of each function of the PTX."""
    heads = list(_FUNCTION.finditer(ptx))
    ends = [*(head.start() for head in heads[1:]), len(ptx)] if heads else []
    found: dict[str, frozenset[str]] = {}
    for head, end in zip(heads, ends, strict=True):
        names = frozenset(match[1] for match in _CALL.finditer(ptx, head.end(), end))
        found[head[1]] = found.get(head[1], frozenset()) | names
    return found


def _reached(name: str, calls: Mapping[str, frozenset[str]]) -> set[str]:
    seen: set[str] = set()
    pending = [name]
    while pending:
        current = pending.pop()
        if current not in seen:
            seen.add(current)
            pending.extend(calls.get(current, ()))
    return seen


def _depth(
    name: str, own: Mapping[str, tuple[int, int, int]], calls: Mapping[str, frozenset[str]], above: frozenset[str]
) -> int:
    """Return the stack bytes of the deepest chain of calls; a recursive call counts once."""
    inside = above | {name}
    below = (_depth(callee, own, calls, inside) for callee in calls.get(name, frozenset()) - inside)
    return own.get(name, (0, 0, 0))[0] + max(below, default=0)


def source_lines(ptx: str) -> Mapping[int, LogPosition]:
    """Return the source position of the last ``.loc`` before each 1-based line of ``ptx``."""
    files = {int(match[1]): match[2] for match in _FILE.finditer(ptx)}
    positions: dict[int, LogPosition] = {}
    last: LogPosition | None = None
    for number, line in enumerate(ptx.split("\n"), start=1):
        if match := _LOC.match(line):
            last = LogPosition(files.get(int(match[1]), ""), int(match[2]), max(int(match[3]) - 1, 0))
        if last is not None:
            positions[number] = last
    return positions


def _usage(
    name: str,
    registers: int,
    rest: str,
    own: Mapping[str, tuple[int, int, int]],
    calls: Mapping[str, frozenset[str]],
) -> ResourceUsage:
    cumulative = _CUMULATIVE_STACK.search(rest)
    barriers = _BARRIERS.search(rest)
    reached = [own[item] for item in _reached(name, calls) if item in own]
    return ResourceUsage(
        registers=registers,
        spill_stores=sum(item[1] for item in reached),
        spill_loads=sum(item[2] for item in reached),
        stack_bytes=max(_depth(name, own, calls, frozenset()), int(cumulative[1]) if cumulative else 0),
        static_shared_bytes=_sum(_SHARED, rest),
        constant_bytes=_sum(_CONSTANT, rest),
        barriers=int(barriers[1]) if barriers else 0,
    )


def _sum(pattern: re.Pattern[str], text: str) -> int:
    return sum(int(part) for match in pattern.finditer(text) for part in match.groups() if part)

"""The resource report that ``--ptxas-options=-v`` writes into NVRTC's log.

These are the true numbers of the final machine code: registers in PTX are virtual, and spills do not show there at all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from gpuemu_lsp.engine.compile.messages import Spot
from gpuemu_lsp.engine.compile.model import ResourceUsage

_ENTRY = re.compile(r"^ptxas info\s*: Compiling entry function '(?P<name>[^']+)' for '(?P<arch>[^']+)'")
_PROPERTIES = re.compile(r"^ptxas info\s*: Function properties for (?P<name>\S+)")
_STACK = re.compile(
    r"(?P<stack>\d+) bytes stack frame, (?P<stores>\d+) bytes spill stores, (?P<loads>\d+) bytes spill loads"
)
_USED = re.compile(r"^ptxas info\s*: Used (?P<registers>\d+) registers(?P<rest>.*)$")
_BARRIERS = re.compile(r"used (\d+) barriers")
_SHARED = re.compile(r"(\d+)(?:\+(\d+))? bytes smem")
_CONSTANT = re.compile(r"(\d+)(?:\+(\d+))? bytes cmem\[\d+\]")
_FILE = re.compile(r'^\s*\.file\s+(\d+)\s+"([^"]+)"', re.MULTILINE)
_LOC = re.compile(r"\s*\.loc\s+(\d+)\s+(\d+)\s+(\d+)")
_CUMULATIVE_STACK = re.compile(r"(\d+) bytes cumulative stack size")


def resources(log: str) -> Mapping[str, ResourceUsage]:
    """Return what ptxas reported for each kernel, by mangled name.

    ``Function properties`` are also printed for device functions that were not inlined; only those of an entry count,
    and the stack that its calls add up to where ptxas says so.
    """
    usage: dict[str, ResourceUsage] = {}
    entry = subject = None
    stack = {}
    for line in log.split("\n"):
        if match := _ENTRY.match(line):
            entry = match["name"]
        elif match := _PROPERTIES.match(line):
            subject = match["name"]
        elif (match := _STACK.search(line)) and subject is not None:
            stack[subject] = (int(match["stack"]), int(match["stores"]), int(match["loads"]))
        elif (match := _USED.match(line)) and entry is not None:
            usage[entry] = _usage(int(match["registers"]), match["rest"], stack.get(entry, (0, 0, 0)))
            entry = None
    return usage


def source_lines(ptx: str) -> Mapping[int, Spot]:
    """Return, by 1-based line of ``ptx``, the source place that the last ``.loc`` before it names."""
    files = {int(match[1]): match[2] for match in _FILE.finditer(ptx)}
    spots: dict[int, Spot] = {}
    last: Spot | None = None
    for number, line in enumerate(ptx.split("\n"), start=1):
        if match := _LOC.match(line):
            last = Spot(files.get(int(match[1]), ""), int(match[2]), max(int(match[3]) - 1, 0))
        if last is not None:
            spots[number] = last
    return spots


def _usage(registers: int, rest: str, stack: tuple[int, int, int]) -> ResourceUsage:
    cumulative = _CUMULATIVE_STACK.search(rest)
    barriers = _BARRIERS.search(rest)
    return ResourceUsage(
        registers=registers,
        spill_stores=stack[1],
        spill_loads=stack[2],
        stack_bytes=max(stack[0], int(cumulative[1]) if cumulative else 0),
        static_shared_bytes=_sum(_SHARED, rest),
        constant_bytes=_sum(_CONSTANT, rest),
        barriers=int(barriers[1]) if barriers else 0,
    )


def _sum(pattern: re.Pattern[str], text: str) -> int:
    return sum(int(part) for match in pattern.finditer(text) for part in match.groups() if part)

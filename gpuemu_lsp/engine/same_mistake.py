"""Which events of one launch show the mistake of an earlier one, as far as no further launch is needed to say so.

On a GPU a misaligned access ends the launch, and no thread passes a barrier that others never reach. The emulator goes
on, so that one launch shows independent mistakes too. What it then reports follows from the first event where

- a pointer is misaligned: further misaligned accesses through it, and reads of what such a store did not write;
- an index is behind the end of an array: accesses at that index to arrays of that length, and those of the same line,
  of which compilers make several instructions;
- threads wait at a barrier that others do not reach: the barriers at which these wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuemu_lsp.engine.execution import Access, Event
from gpuemu_lsp.engine.findings import Finding

_MISALIGNED, _OUTSIDE, _UNREACHED = "memory/misaligned", "memory/out-of-bounds", "sync/barrier-divergence"
_UNINITIALIZED = "memory/uninitialized-read"


def earlier_of_same_mistake(events: Sequence[Event]) -> dict[int, int]:
    """Return the number of the event that each event follows from, of those that follow from one.

    ``events`` are in the order in which they occurred.
    """
    causes: dict[int, int] = {}
    for number, event in enumerate(events):
        first = next((earlier for earlier in range(number) if _is_same(events[earlier], event)), None)
        if first is not None:
            causes[number] = causes.get(first, first)
    return causes


def _is_same(first: Event, event: Event) -> bool:
    """Return whether an event shows the mistake of one that occurred before it."""
    if first.severity is not None or event.severity is not None:
        return False
    if first.rule == _MISALIGNED:
        same = first.buffer == event.buffer
        missing = event.rule == _UNINITIALIZED and first.access is Access.WRITE
        return same and (event.rule == _MISALIGNED or missing)
    if first.rule == event.rule == _OUTSIDE:
        index, later = _index_behind_end(first), _index_behind_end(event)
        unrolled = first.buffer == event.buffer and _line(first) == _line(event) is not None
        return index is not None and later is not None and (index == later or unrolled)
    return first.rule == event.rule == _UNREACHED and first.block == event.block


def _index_behind_end(event: Event) -> tuple[int, int] | None:
    """Return an index and the length of the array, in elements of the access; None if it is not behind the end."""
    length = event.extent
    if length is None or not event.size or event.offset is None or event.offset < length - event.size + 1:
        return None
    return event.offset // event.size, length // event.size


def _line(event: Event) -> tuple[int, int] | None:
    return None if event.location is None else (event.location.file, event.location.line)


def each_once(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the findings without those of a rule and line that is there already."""
    by_line: dict[tuple[str, str, int], Finding] = {}
    for one in findings:
        by_line.setdefault((one.rule, one.place.path, one.place.range.start.line), one)
    return tuple(by_line.values())

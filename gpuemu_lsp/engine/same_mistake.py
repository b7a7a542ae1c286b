"""Which events of one launch show the mistake of an earlier one, as far as no further launch is needed to say so.

On a GPU a misaligned access ends the launch, and no thread passes a barrier that others never reach. The emulator goes
on, so that one launch shows independent mistakes too. What it then reports follows from the first event where

- a pointer is misaligned: further misaligned accesses through it, and reads of what such a store did not write;
- an index is behind the end of an array: accesses at that index to arrays of that length;
- threads wait at a barrier that others do not reach: the barriers at which these wait.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gpuemu_lsp.engine.execution import Access, Event

_MISALIGNED, _OUTSIDE, _UNREACHED = "memory/misaligned", "memory/out-of-bounds", "sync/barrier-divergence"
_UNINITIALIZED = "memory/uninitialized-read"


def earlier_of_same_mistake(events: Sequence[Event], lengths: Mapping[str, int]) -> dict[int, int]:
    """Return the number of the event that each event follows from, of those that follow from one.

    ``events`` are in the order in which they occurred; ``lengths`` are the bytes of the buffers by name.
    """
    causes: dict[int, int] = {}
    for number, event in enumerate(events):
        first = next((earlier for earlier in range(number) if _is_same(events[earlier], event, lengths)), None)
        if first is not None:
            causes[number] = causes.get(first, first)
    return causes


def _is_same(first: Event, event: Event, lengths: Mapping[str, int]) -> bool:
    """Return whether an event shows the mistake of one that occurred before it."""
    if first.severity is not None or event.severity is not None:
        return False
    if first.rule == _MISALIGNED:
        same = first.buffer == event.buffer
        missing = event.rule == _UNINITIALIZED and first.access is Access.WRITE
        return same and (event.rule == _MISALIGNED or missing)
    if first.rule == event.rule == _OUTSIDE:
        index = _index_behind_end(first, lengths)
        return index is not None and index == _index_behind_end(event, lengths)
    return first.rule == event.rule == _UNREACHED and first.block == event.block


def _index_behind_end(event: Event, lengths: Mapping[str, int]) -> tuple[int, int] | None:
    """Return an index and the length of the array, in elements of the access; None if it is not behind the end."""
    length = lengths.get(event.buffer or "")
    if length is None or not event.size or event.offset is None or event.offset < length - event.size + 1:
        return None
    return event.offset // event.size, length // event.size

"""Races as events: on the line of the read where there is one, the other party's line beside it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from gpuemu_lsp.engine.emulator.launch.access_messages import AccessedBytes
from gpuemu_lsp.engine.execution import Dim3, Event
from gpuemu_lsp.engine.ptx.model import Instruction, Location


@dataclass(frozen=True, slots=True)
class RaceAccess:
    """One of the two: who did what with which instruction. ``spread`` is that of :class:`.layout.Cell`."""

    instruction: Instruction
    number: int
    wrote: bool
    atomic: bool
    thread: Dim3
    block: Dim3
    spread: int = 0

    @property
    def location(self) -> Location | None:
        """Where its instruction stands."""
        return self.instruction.location

    @property
    def verb(self) -> str:
        """What it did."""
        return "updates atomically" if self.atomic else "writes" if self.wrote else "reads"


def race_event(space: str, one: RaceAccess, other: RaceAccess, accessed: AccessedBytes, count: int) -> Event:
    """Return the event of a race between two parties."""
    # The read shows the wrong value: it is where the user looks.
    first, second = (other, one) if one.wrote and not other.wrote and not _unnamed(other, one) else (one, other)
    place = f"{space} memory" if accessed.name is None else accessed.place
    message = (
        f"{_who(first)} {_active(first)} {place} and {_who(second, first)} {_active(second)} it without synchronization"
    )
    if _same_warp(first, second):
        message += "; lanes of a warp need not execute in lockstep"
    return Event(
        f"memory/{space}-race",
        message,
        first.location,
        first.instruction.name,
        first.thread,
        first.block,
        accessed.name,
        accessed.offset,
        accessed.size,
        count,
        other=second.location,
        data={
            "access": first.verb,
            "other_thread": None if _unnamed(second, first) else list(second.thread),
            "other_block": list(second.block),
            "other_access": second.verb,
            "other_instruction": second.instruction.name,
        },
    )


def _active(access: RaceAccess) -> str:
    return "atomically updates" if access.atomic else access.verb


def _same_warp(one: RaceAccess, other: RaceAccess) -> bool:
    return one.number >> 5 == other.number >> 5 and max(one.spread, other.spread) < 2


def _who(party: RaceAccess, beside: RaceAccess | None = None) -> str:
    if beside is not None and _unnamed(party, beside):
        return "another thread of the " + ("warp", "block", "grid")[party.spread - 1]
    text = f"thread {_dims(party.thread)}"
    if beside is None or beside.block != party.block:
        text += f" of block {_dims(party.block)}"
    return text


def _unnamed(party: RaceAccess, beside: RaceAccess) -> bool:
    """Whether only the latest of several threads is kept, and that is the other party itself."""
    return bool(party.spread) and party.number == beside.number


def _dims(dims: Dim3) -> str:
    """Return coordinates as short as they can be said."""
    x, y, z = dims
    return f"({x}, {y}, {z})" if z else f"({x}, {y})" if y else str(x)


def merged(events: Iterable[Event]) -> list[Event]:
    """Return one event for each pair of places: either party may have come second."""
    found: dict[tuple[str, frozenset[Location | None]], Event] = {}
    result: list[Event] = []
    for event in events:
        if not event.rule.endswith("-race"):
            result.append(event)
            continue
        key = event.rule, frozenset((event.location, event.other))
        known = found.get(key)
        if known is None:
            found[key] = event
            result.append(event)
        else:
            both = replace(known, count=known.count + event.count)
            result[result.index(known)] = both
            found[key] = both
    return result

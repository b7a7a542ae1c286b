"""Findings of events: the only place where what a checker reports becomes a finding, with its data and its places.

The executor describes an event by what it sees of the launch. A caller that knows more, such as the allocation that an
address was meant for, passes the event through one of the functions here, which say so. No function reads a message:
they decide on the rule, the cause and the access.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, TypeAlias

from gpuemu_lsp.engine.cause import Cause
from gpuemu_lsp.engine.execution import Access, Event
from gpuemu_lsp.engine.findings import Finding, Json, Place, Related, other_access
from gpuemu_lsp.engine.ptx.model import Location
from gpuemu_lsp.engine.rules import make

Placement: TypeAlias = Callable[[Location | None], tuple[Place, tuple[Related, ...]]]
"""Returns the place of a location in the user's files, and those that lead there."""

_LOOPS = {
    Cause.LONG_LOOP: "in this loop",
    Cause.TIME_LIMIT: "in this loop",
    Cause.STOPPED: "in this loop",
    Cause.STOPPED_WAITING: "while it waited in this loop, whose registers stayed the same",
}
"""Where a launch was that has been stopped and need not be endless."""


def finding_of(event: Event, at: Placement, *, note: str = "", threads: bool = True, **fields: Any) -> Finding:
    """Return the finding of an event, on the line of its instruction.

    ``note`` continues the message. ``threads`` False is for languages whose kernels are programs without threads: the
    data names the program in place of block and thread. ``fields`` are further fields of the finding; its data is added
    to that of the event.
    """
    place, related = at(event.location)
    if event.other is not None:
        related = (other_access(at(event.other)[0]), *related)
    data = {**_data(event, threads=threads), **fields.pop("data", {})}
    found = make(event.rule, f"{event.message}{note}", place, data=data, cause=event.cause, **fields)
    return replace(found, related=related, severity=event.severity or found.severity)


def _data(event: Event, *, threads: bool) -> dict[str, Json]:
    data: dict[str, Json] = {"instruction": event.instruction, "count": event.count, **event.data}
    if threads and event.thread is not None:
        data["thread"] = list(event.thread)
    if event.block is not None:
        data["block" if threads else "program"] = list(event.block)
    for key, value in (("buffer", event.buffer), ("offset", event.offset), ("size", event.size)):
        if value is not None:
            data[key] = value
    if event.access is not None and event.other_access is not None:
        data |= {"access": event.access.value, "other_access": event.other_access.value}
    return data


# ---- launches that took too long ----


def is_stopped_loop(event: Event) -> bool:
    """Return whether an event is about a loop in which the launch was stopped, and that need not be endless."""
    return event.cause in _LOOPS


def stopped_in_loop(event: Event, launch: str, how: str) -> Event:
    """Return a stopped loop of a program's launch as a timeout; ``how`` follows the text of the launch."""
    where = _LOOPS[event.cause] if event.cause is not None else ""
    return replace(event, rule="engine/timeout", message=f"{launch} {how} {where}, and not checked to its end")


def slow_launch(event: Event, blocks: int, seconds: float) -> Event:
    """Return the event of a loop that was stopped and may have an end as a timeout and not as a hang.

    A test suite's launches have the sizes of a GPU: that one takes long does not show that a loop has no end.
    """
    if event.cause is None or not event.cause.may_end:
        return event
    why = f"did not finish within {seconds:g} s" if event.cause is Cause.TIME_LIMIT else "takes too many steps"
    message = (
        f"the launch of {blocks:,} blocks {why}, and its results are not complete; use smaller sizes or a higher limit"
    )
    return replace(event, rule="engine/timeout", message=message)


def slow_grid_barrier(event: Event) -> Event:
    """Return the event of a loop of a cooperative launch that did not end as one of the time limit.

    Blocks at a barrier of the grid spin, which takes the emulator long if there are many of them: that a launch did not
    end in time does not show that it never would.
    """
    if event.rule != "sync/hang":
        return event
    return replace(event, rule="engine/timeout", message="the time limit was reached at a barrier of the grid")


# ---- accesses in the memory of a whole program ----


def in_no_allocation(event: Event, where: str) -> Event:
    """Return an access out of bounds that is meant for no allocation; ``where`` the address is."""
    return replace(event, message=f"{_accessed(event)} is out of bounds: the address is {where}")


def outside_heap_block(event: Event) -> Event:
    """Return an access out of bounds in the heap of device ``malloc``."""
    where = "of the heap of device `malloc` is out of bounds: they are in no block, or in one that was freed"
    return replace(event, message=f"{_accessed(event)} at byte {event.offset} {where}")


def after_free(event: Event, freed: str) -> Event:
    """Return an access to an allocation that was freed at the place ``freed``, which may be empty."""
    when = f"was freed at {freed}" if freed else "was freed"
    return replace(event, rule="memory/use-after-free", message=f"{_in_buffer(event)}, which {when}")


def through_no_pointer(event: Event) -> Event:
    """Return a write to an allocation that the kernel has no pointer to."""
    where = "is out of bounds of the memory that it is meant for"
    text = f"{_in_buffer(event)} {where}: the kernel writes through no pointer to this allocation"
    return replace(event, message=text)


def unordered_read(event: Event, writer: str) -> Event:
    """Return a read of what ``writer`` writes on another stream."""
    text = f"{_in_buffer(event)}, which {writer} writes on another stream: no event orders them"
    return replace(event, rule="api/stream-race", message=text)


def _accessed(event: Event) -> str:
    return f"{(event.access or Access.READ).noun} of {event.size} bytes"


def _in_buffer(event: Event) -> str:
    return f"{_accessed(event)} at byte {event.offset} of {event.buffer}"

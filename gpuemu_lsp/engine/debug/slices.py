"""Slices: the executed statements on which a moment depends, the closest first.

A dynamic slice (Korel and Laski, "Dynamic program slicing", 1988) of a recorded block. The distance of a statement is
the number of lines on the way to it; one that is reached by an index or a condition counts more than by a value, so
that the way of the data comes first. Further executions of a line hardly count: those of a loop are one step.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gpuemu_lsp.engine.debug.dependences import Element, Reason, RuntimeDependence, RuntimeDependences
from gpuemu_lsp.engine.debug.statements import Statement, Statements

_DISTANCES: Final = {Reason.VALUE: 200, Reason.INDEX: 300, Reason.CONDITION: 500}
_SAME_LINE: Final = 1
_OTHER_THREAD: Final = 150
MOST_STATEMENTS: Final = 4000
"""Statements of a slice, with each execution of a loop's."""


@dataclass(frozen=True, slots=True)
class Criterion:
    """What a slice begins with: the instruction of a thread at a tick."""

    thread: int
    tick: int


@dataclass(frozen=True, slots=True)
class SlicedStatement:
    """A statement of a slice, the reason for which it is in it, and the elements of memory that it accesses."""

    statement: Statement
    reason: Reason
    distance: int
    elements: tuple[Element, ...]


def slice_of(
    criteria: Iterable[Criterion], statements: Statements, dependences: RuntimeDependences
) -> Iterator[SlicedStatement]:
    """Yield the statements on which the criteria depend, themselves included, the closest first."""
    queue = [(0, -one.tick, one.thread, Reason.VALUE) for one in criteria]
    heapq.heapify(queue)
    seen: set[tuple[int, int]] = set()
    lines: set[tuple[str, int]] = set()
    found = 0
    while queue and found < MOST_STATEMENTS:
        distance, negative, thread, reason = heapq.heappop(queue)
        tick = -negative
        statement = statements.at(thread, tick)
        if (thread, tick) in seen:
            continue
        found += 1
        elements, outer = _inside(statement, thread, tick, dependences, seen)
        if statement is not None:
            lines.add((statement.place.path, statement.line))
            yield SlicedStatement(statement, reason, distance, tuple(elements))
        for dependence in outer:
            following = (dependence.thread, dependence.tick)
            if following not in seen:
                other = statements.at(*following)
                known = other is None or (other.place.path, other.line) in lines
                further = distance + (_SAME_LINE if known else _DISTANCES[dependence.reason])
                # The way of one thread first: in a reduction all of them do the same.
                further += _OTHER_THREAD if dependence.thread != thread else 0
                heapq.heappush(queue, (further, -dependence.tick, dependence.thread, dependence.reason))


def _inside(
    statement: Statement | None,
    thread: int,
    tick: int,
    dependences: RuntimeDependences,
    seen: set[tuple[int, int]],
) -> tuple[list[Element], list[RuntimeDependence]]:
    """Return the elements that the part of a statement accesses on which a tick depends, and what it depends on.

    The instructions of this part are added to ``seen``, and are left out if they are there already.
    """
    first = statement.first if statement is not None else tick
    elements: list[Element] = []
    outer: list[RuntimeDependence] = []
    work = [(tick, Reason.VALUE)]
    seen.add((thread, tick))
    while work:
        at, reason = work.pop()
        elements += dependences.elements(thread, at)
        for dependence in dependences.of(thread, at):
            # The index of an address is one, however it was computed.
            kind = max(reason, dependence.reason)
            if dependence.element is None and dependence.thread == thread and dependence.tick >= first:
                if (thread, dependence.tick) not in seen:
                    seen.add((thread, dependence.tick))
                    work.append((dependence.tick, kind))
            else:
                outer.append(RuntimeDependence(kind, dependence.thread, dependence.tick, dependence.element))
    outer += dependences.conditions(thread, tick)
    return sorted(elements, key=lambda one: one.tick), outer

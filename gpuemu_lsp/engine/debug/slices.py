"""Slices: the executed statements on which a moment depends, the closest first.

A dynamic slice (Korel and Laski, "Dynamic program slicing", 1988) of a recorded block. The distance of a statement is
the number of dependences on the way to it; those of an index and of a condition count more than those of a value, so
that the way of the data comes first.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from gpuemu_lsp.engine.debug.dependences import Element, Reason, RuntimeDependence, RuntimeDependences
from gpuemu_lsp.engine.debug.statements import Statement, Statements

_DISTANCES: Final = {Reason.VALUE: 2, Reason.INDEX: 3, Reason.CONDITION: 5}
MOST_STATEMENTS: Final = 2000
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
    while queue and len(seen) < MOST_STATEMENTS:
        distance, negative, thread, reason = heapq.heappop(queue)
        tick = -negative
        statement = statements.at(thread, tick)
        if (thread, tick) in seen:
            continue
        seen.add((thread, tick))
        elements, outer = _inside(statement, thread, tick, dependences)
        if statement is not None:
            yield SlicedStatement(statement, reason, distance, tuple(elements))
        for dependence in outer:
            following = (dependence.thread, dependence.tick)
            if following not in seen:
                further = distance + _DISTANCES[dependence.reason]
                heapq.heappush(queue, (further, -dependence.tick, dependence.thread, dependence.reason))


def _inside(
    statement: Statement | None, thread: int, tick: int, dependences: RuntimeDependences
) -> tuple[list[Element], list[RuntimeDependence]]:
    """Return the elements that the part of a statement accesses on which a tick depends, and what it depends on."""
    first = statement.first if statement is not None else tick
    elements: list[Element] = []
    outer: list[RuntimeDependence] = []
    work, seen = [(tick, Reason.VALUE)], {tick}
    while work:
        at, reason = work.pop()
        elements += dependences.elements(thread, at)
        for dependence in dependences.of(thread, at):
            # The index of an address is one, however it was computed.
            kind = max(reason, dependence.reason)
            if dependence.element is None and dependence.thread == thread and dependence.tick >= first:
                if dependence.tick not in seen:
                    seen.add(dependence.tick)
                    work.append((dependence.tick, kind))
            else:
                outer.append(RuntimeDependence(kind, dependence.thread, dependence.tick, dependence.element))
    outer += dependences.conditions(thread, tick)
    return sorted(elements, key=lambda one: one.tick), outer

"""Dataflow: the fixed points that analyses of a kernel compute, and the solvers for them.

An analysis declares a :class:`Lattice` and what becomes of a value: :func:`solve` finds the values at the boundaries of
basic blocks, :func:`propagate` those of any nodes that pass values to each other, such as registers along
definition-use chains, and :func:`reachable` is the case of one value. All three find the least solution, which does not
depend on the order of visits (Kildall, "A unified approach to global program optimization", 1973); the order decides
how often a block is visited.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from heapq import heapify, heappop, heappush
from typing import Generic, Protocol, TypeVar

Node = TypeVar("Node", bound=Hashable)
Value = TypeVar("Value")


@dataclass(frozen=True, slots=True)
class Lattice(Generic[Value]):
    """Values of which each chain of larger ones is finite: the least one, and the least above two."""

    bottom: Value
    join: Callable[[Value, Value], Value]
    equal: Callable[[Value, Value], bool] = operator.eq


BITS: Lattice[int] = Lattice(0, operator.or_)
"""Sets as the bits of an integer: union and difference of a thousand registers are one operation."""


class BlockGraph(Protocol):
    """Basic blocks, numbered in reverse postorder, with the blocks that follow and precede each."""

    @property
    def successors(self) -> Sequence[Sequence[int]]:
        """The blocks to which control may go from each."""

    @property
    def predecessors(self) -> Sequence[Sequence[int]]:
        """The blocks from which control may come to each."""


class Direction(Enum):
    """Whether values flow with control, or against it."""

    FORWARD = 1
    BACKWARD = -1


def solve(
    graph: BlockGraph,
    lattice: Lattice[Value],
    transfer: Callable[[int, Value], Value],
    direction: Direction = Direction.FORWARD,
    entry: Value | None = None,
) -> tuple[list[Value], list[Value]]:
    """Return the values that enter each block and those that leave it, in the direction of the flow.

    ``transfer`` returns what leaves a block, given what enters it, and is monotone. ``entry`` enters block 0 of a
    forward analysis from outside.
    """
    before, after = graph.predecessors, graph.successors
    if direction is Direction.BACKWARD:
        before, after = after, before
    count, sign = len(after), direction.value
    entering, leaving = [lattice.bottom] * count, [lattice.bottom] * count
    work = [sign * number for number in range(count)]
    heapify(work)
    queued = [True] * count
    while work:
        number = sign * heappop(work)
        queued[number] = False
        value = lattice.bottom if number or entry is None else entry
        for source in before[number]:
            value = lattice.join(value, leaving[source])
        entering[number] = value
        value = transfer(number, value)
        if not lattice.equal(value, leaving[number]):
            leaving[number] = value
            for target in after[number]:
                if not queued[target]:
                    queued[target] = True
                    heappush(work, sign * target)
    return entering, leaving


def propagate(
    initial: Mapping[Node, Value],
    flow: Callable[[Node, Value], Iterable[tuple[Node, Value]]],
    lattice: Lattice[Value],
) -> dict[Node, Value]:
    """Return the value of each node that one reaches, from those that some have at first.

    ``flow`` yields what a node with a value passes to others; it is monotone, and called again when the value grows.
    """
    values: dict[Node, Value] = {}
    waiting = dict(initial)
    while waiting:
        node, value = waiting.popitem()
        if node in values:
            value = lattice.join(values[node], value)
            if lattice.equal(value, values[node]):
                continue
        values[node] = value
        for target, passed in flow(node, value):
            waiting[target] = lattice.join(waiting[target], passed) if target in waiting else passed
    return values


def reachable(starts: Iterable[Node], successors: Callable[[Node], Iterable[Node]]) -> set[Node]:
    """Return the nodes that can be reached from some, themselves included."""
    seen = set(starts)
    left = list(seen)
    while left:
        for node in successors(left.pop()):
            if node not in seen:
                seen.add(node)
                left.append(node)
    return seen

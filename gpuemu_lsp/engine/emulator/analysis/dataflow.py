"""Dataflow: fixed points over graphs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Node = TypeVar("Node")


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

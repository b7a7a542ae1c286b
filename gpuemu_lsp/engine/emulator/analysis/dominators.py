"""Dominators and post-dominators of a graph, given as the list of each node's successors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

Edges: TypeAlias = list[list[int]]


def reversed_edges(edges: Sequence[Sequence[int]]) -> Edges:
    """Return each node's predecessors."""
    result: Edges = [[] for _ in edges]
    for source, targets in enumerate(edges):
        for target in targets:
            result[target].append(source)
    return result


def dominators(edges: Sequence[Sequence[int]], root: int = 0) -> list[int]:
    """Return immediate dominators (Cooper, Harvey and Kennedy 2001); -1 for nodes the root does not reach."""
    postorder: list[int] = []
    seen = {root}
    stack = [(root, iter(edges[root]))]
    while stack:
        node, targets = stack[-1]
        for target in targets:
            if target not in seen:
                seen.add(target)
                stack.append((target, iter(edges[target])))
                break
        else:
            postorder.append(node)
            stack.pop()
    rank = {node: i for i, node in enumerate(postorder)}
    predecessors = reversed_edges(edges)
    dominator = [-1] * len(edges)
    dominator[root] = root
    changed = True
    while changed:
        changed = False
        for node in reversed(postorder[:-1]):
            best = -1
            for source in predecessors[node]:
                if dominator[source] == -1:
                    continue
                if best == -1:
                    best = source
                    continue
                other = source
                while best != other:
                    while rank[best] < rank[other]:
                        best = dominator[best]
                    while rank[other] < rank[best]:
                        other = dominator[other]
            if dominator[node] != best:
                dominator[node] = best
                changed = True
    return dominator


def dominates(dominator: Sequence[int], above: int, block: int) -> bool:
    """Whether every way to ``block`` leads through ``above``, by the immediate dominators."""
    if dominator[block] == -1:
        return False
    while block != above:
        if dominator[block] == block:
            return False
        block = dominator[block]
    return True


def post_dominators(edges: Sequence[Sequence[int]], leaving: Sequence[int]) -> list[int]:
    """Return immediate post-dominators; the exit is node ``n``, where the edges of ``leaving`` lead too.

    A loop without an exit counts as leading to it.
    """
    n = len(edges)
    backwards: Edges = [*reversed_edges(edges), list(leaving)]
    reached = _reachable(backwards, n)
    for node in reversed(range(n)):
        if node not in reached:
            backwards[n].append(node)
            reached |= _reachable(backwards, node)
    return dominators(backwards, n)[:n]


def _reachable(edges: Sequence[Sequence[int]], start: int) -> set[int]:
    seen, work = {start}, [start]
    while work:
        for target in edges[work.pop()]:
            if target not in seen:
                seen.add(target)
                work.append(target)
    return seen

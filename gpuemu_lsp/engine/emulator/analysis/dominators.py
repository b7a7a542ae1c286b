"""Dominators and post-dominators of any directed graph, given as the list of each node's successors.

Block a dominates block b if every path from the entry to b passes through a; it post-dominates b if every path from b
to the exit does. Post-dominators are dominators of the reversed graph. The algorithm is that of Cooper, Harvey and
Kennedy, "A simple, fast dominance algorithm" (2001), which beats Lengauer and Tarjan's on graphs of this size.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from gpuemu_lsp.engine.emulator.analysis.dataflow import reachable

Edges: TypeAlias = list[list[int]]


def reversed_edges(edges: Sequence[Sequence[int]]) -> Edges:
    """Return each node's predecessors."""
    result: Edges = [[] for _ in edges]
    for source, targets in enumerate(edges):
        for target in targets:
            result[target].append(source)
    return result


def dominators(edges: Sequence[Sequence[int]], root: int = 0) -> list[int]:
    """Return each node's immediate dominator; the root's is the root, -1 for nodes that the root does not reach."""
    # Depth-first with an explicit stack: thousands of blocks in a row exceed Python's recursion limit.
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
    # Reducible graphs settle in the first round of reverse postorder, and the second finds no change.
    while changed:
        changed = False
        for node in reversed(postorder[:-1]):
            best = -1
            for source in predecessors[node]:
                # Not visited yet (a back edge), or unreachable.
                if dominator[source] == -1:
                    continue
                if best == -1:
                    best = source
                    continue
                # Intersect: walk up both chains until they meet; the node with the lower postorder number is deeper.
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
    """Whether ``above`` dominates ``block``, by the immediate dominators; every node dominates itself."""
    if dominator[block] == -1:
        return False
    while block != above:
        if dominator[block] == block:
            return False
        block = dominator[block]
    return True


def post_dominators(edges: Sequence[Sequence[int]], leaving: Sequence[int]) -> list[int]:
    """Return immediate post-dominators; the exit is an added node ``n``, a successor of every node in ``leaving``.

    A loop without an exit gets an edge to it: its blocks have a post-dominator like all others.
    """
    n = len(edges)
    # The added exit makes the reversed graph one with a single root, as the algorithm needs.
    backwards: Edges = [*reversed_edges(edges), list(leaving)]
    reached = reachable([n], backwards.__getitem__)
    # From the highest number down: of an endless loop the latch gets the edge, so that its other blocks are
    # post-dominated by the latch, and lanes reconverge there in every iteration.
    for node in reversed(range(n)):
        if node not in reached:
            backwards[n].append(node)
            reached |= reachable([node], backwards.__getitem__)
    return dominators(backwards, n)[:n]

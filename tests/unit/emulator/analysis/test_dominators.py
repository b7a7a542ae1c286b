"""Dominators and post-dominators against their definition: removing a dominator disconnects the node."""

from __future__ import annotations

import random

import pytest

from gpuemu_lsp.engine.emulator.analysis.dominators import dominates, dominators, post_dominators, reversed_edges


def reachable(edges: list[list[int]], start: int, without: int | None = None) -> set[int]:
    seen = set() if start == without else {start}
    work = list(seen)
    while work:
        for target in edges[work.pop()]:
            if target not in seen and target != without:
                seen.add(target)
                work.append(target)
    return seen


def random_graph(seed: int) -> list[list[int]]:
    rng = random.Random(seed)
    count = rng.randrange(2, 14)
    return [sorted({rng.randrange(count) for _ in range(rng.choice((0, 1, 1, 2, 2, 3)))}) for _ in range(count)]


@pytest.mark.parametrize("seed", range(60))
def test_dominators_of_random_graphs(seed: int) -> None:
    edges = random_graph(seed)
    found = dominators(edges)
    all_nodes = reachable(edges, 0)
    for node in range(len(edges)):
        if node not in all_nodes:
            assert found[node] == -1
            continue
        expected = {above for above in all_nodes if above == node or node not in reachable(edges, 0, without=above)}
        assert {above for above in range(len(edges)) if dominates(found, above, node)} == expected
        # The immediate dominator is the one that all other strict dominators dominate.
        strict = expected - {node}
        assert found[node] == (max(strict, key=lambda one: len(strict & dominators_of(found, one))) if strict else 0)


def dominators_of(immediate: list[int], node: int) -> set[int]:
    found = {node}
    while immediate[node] != node:
        node = immediate[node]
        found.add(node)
    return found


def test_post_dominators_of_a_diamond() -> None:
    assert post_dominators([[1, 2], [3], [3], []], [3]) == [3, 3, 3, 4]


def test_a_branch_whose_sides_both_exit_has_the_exit_as_its_post_dominator() -> None:
    assert post_dominators([[1, 2], [], []], [1, 2]) == [3, 3, 3]


@pytest.mark.parametrize("seed", range(60))
def test_post_dominators_are_dominators_of_the_reversed_graph(seed: int) -> None:
    edges = random_graph(seed)
    count = len(edges)
    leaving = [node for node in range(count) if not edges[node]]
    while stuck := set(range(count)) - reachable(backwards := [*reversed_edges(edges), leaving], count):
        leaving.append(stuck.pop())
    assert post_dominators(edges, leaving) == dominators(backwards, count)[:count]


def test_lanes_of_an_endless_loop_reconverge_at_its_latch() -> None:
    # 0 -> 1, 1 branches to 2 and 3, both lead to 4, 4 back to 1.
    assert post_dominators([[1], [2, 3], [4], [4], [1]], []) == [1, 4, 4, 4, 5]

"""The solvers that analyses declare a lattice and a transfer function for."""

from __future__ import annotations

import itertools

import pytest

from gpuemu_lsp.engine.emulator.analysis.cfg import ControlFlowGraph
from gpuemu_lsp.engine.emulator.analysis.dataflow import BITS, Direction, Lattice, propagate, reachable, solve
from gpuemu_lsp.engine.emulator.analysis.dominators import reversed_edges

LOOP = [[1], [2, 4], [3], [1], []]
"""Block 0, a loop of 1, 2 and 3, and block 4 behind it."""


def graph(edges: list[list[int]]) -> ControlFlowGraph:
    successors = tuple(map(tuple, edges))
    predecessors = tuple(map(tuple, reversed_edges(edges)))
    return ControlFlowGraph(successors, predecessors, (), frozenset(), True)


def test_values_go_round_a_loop_forwards() -> None:
    """Each block adds a bit of its own: block 1 sees those of the loop, and block 4 does not add to them."""
    entering, leaving = solve(graph(LOOP), BITS, lambda block, bits: bits | 1 << block, entry=1 << 9)
    loop = 1 << 9 | 0b1111
    assert entering == [1 << 9, loop, loop, loop, loop]
    assert leaving == [1 << 9 | 1, loop, loop, loop, loop | 1 << 4]


def test_values_go_against_control_backwards() -> None:
    entering, leaving = solve(graph(LOOP), BITS, lambda block, bits: bits | 1 << block, Direction.BACKWARD)
    assert entering == [0b11110, 0b11110, 0b11110, 0b11110, 0]
    assert leaving == [0b11111, 0b11110, 0b11110, 0b11110, 0b10000]


def test_a_block_that_nothing_enters_has_the_least_value() -> None:
    longest: Lattice[int] = Lattice(-1, max)
    entering, _ = solve(graph([[1], [], [1]]), longest, lambda block, value: value if block != 2 else -1, entry=7)
    assert entering == [7, 7, -1]


@pytest.mark.parametrize("order", [*itertools.permutations(range(3))])
def test_nodes_pass_their_values_whatever_the_order(order: tuple[int, ...]) -> None:
    edges = {"a": ["b"], "b": ["c", "a"], "c": ["d"], "d": []}
    initial = {name: 1 << number for number, name in ((number, "abc"[number]) for number in order)}
    values = propagate(initial, lambda node, bits: ((to, bits) for to in edges[node]), BITS)
    assert values == {"a": 0b11, "b": 0b11, "c": 0b111, "d": 0b111}


def test_reachable_nodes_include_the_starts() -> None:
    assert reachable([3], LOOP.__getitem__) == {1, 2, 3, 4}
    assert reachable([4], LOOP.__getitem__) == {4}
    assert reachable([], LOOP.__getitem__) == set()

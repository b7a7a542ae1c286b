"""Sizes of recorded launches: solved where launches show them, left alone where they do not."""

from __future__ import annotations

from gpuemu_lsp.engine.plan.recordings.relations import relations

BLOCK = (256, 1, 1)


def solved(scalars, lengths, grid, blocks=None):
    grid = list(grid)
    found = relations(scalars, lengths, {"grid.0": grid}, blocks or [BLOCK] * len(grid))
    return {key: [str(one) for one in value] for key, value in found.expressions.items()}, found.solved


def test_two_launches_show_lengths_and_a_grid_of_whole_blocks():
    expressions, complete = solved({"n": [1000, 2000]}, {"x": [1000, 2000], "bins": [64, 64]}, [4, 8])
    assert expressions == {"x": ["n"], "bins": ["64"], "grid.0": ["ceil_div(n, 256)"]}
    assert complete


def test_a_product_has_an_extent_for_each_factor():
    scalars = {"rows": [3, 5], "cols": [100, 70]}
    expressions, complete = solved(scalars, {"x": [300, 350], "sums": [3, 5]}, [3, 5])
    assert expressions == {"x": ["rows", "cols"], "sums": ["rows"], "grid.0": ["rows"]}
    assert complete


def test_equal_arguments_are_one_size():
    found = relations({"n": [64, 32], "stride": [64, 32]}, {"x": [64, 32]}, {}, [BLOCK] * 2)
    assert found.names == {"n": "n", "stride": "n"}


def test_a_constant_more_and_a_multiple_are_found():
    expressions, complete = solved({"rows": [10, 33]}, {"starts": [11, 34], "pairs": [20, 66]}, [1, 1])
    assert expressions == {"starts": ["rows + 1"], "pairs": ["2 * rows"], "grid.0": ["1"]}
    assert complete


def test_what_differs_without_a_relation_is_not_solved():
    expressions, complete = solved({"n": [1000, 2000]}, {"x": [1000, 2000], "queue": [17, 41]}, [4, 8])
    assert expressions["queue"] == ["17"]
    assert not complete


def test_one_launch_shows_equality_only():
    expressions, _ = solved({"n": [1000]}, {"x": [1000], "y": [1001], "z": [2000]}, [4])
    assert expressions == {"x": ["n"], "y": ["1001"], "z": ["2000"], "grid.0": ["ceil_div(n, 256)"]}


def test_flags_are_not_sizes():
    expressions, complete = solved({"transposed": [1, 1]}, {"x": [1, 1]}, [1, 1])
    assert expressions == {"x": ["1"], "grid.0": ["1"]}
    assert complete

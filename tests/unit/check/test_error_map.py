"""Maps and sketches of wrong elements."""

from __future__ import annotations

import numpy as np

from gpuemu_lsp.engine.check.error_map import MOST_CELLS, error_map, sketch


def test_a_small_output_is_shown_element_by_element():
    expected = np.arange(12.0).reshape(3, 4)
    actual = expected.copy()
    actual[1, 2] = np.nan
    found = error_map("y", actual, expected, np.isnan(actual))
    assert (found["rows"], found["cols"], found["shape"]) == (3, 4, [3, 4])
    assert found["actual"][1] == [4.0, 5.0, "NaN", 7.0]
    assert found["difference"][1] == [0.0, 0.0, "NaN", 0.0]
    assert found["wrong"] == [[0.0] * 4, [0.0, 0.0, 1.0, 0.0], [0.0] * 4]


def test_a_cell_of_a_large_output_shows_its_worst_element_and_the_share():
    expected = np.zeros((MOST_CELLS * 4, MOST_CELLS))
    actual = expected.copy()
    actual[5, 7], actual[6, 7] = 1.0, -3.0
    found = error_map("y", actual, expected, actual != 0)
    assert (found["rows"], found["cols"]) == (MOST_CELLS, MOST_CELLS)
    assert found["actual"][1][7] == -3.0 and found["difference"][1][7] == 3.0 and found["wrong"][1][7] == 0.5


def test_a_vector_is_folded_and_its_end_is_empty():
    actual = np.ones(100)
    found = error_map("y", actual, None, np.ones(100, dtype=np.bool_))
    assert (found["rows"], found["cols"]) == (7, 16)
    assert found["wrong"][6] == [1.0] * 4 + [0.0] * 12
    assert found["actual"][6][3:5] == [1.0, None] and found["expected"][0][0] is None


def test_a_sketch_distinguishes_none_some_half_and_all():
    wrong = np.zeros((8, 64), dtype=np.bool_)
    wrong[0, :2] = wrong[1, 0] = True
    wrong[7, 62:] = True
    lines = sketch(wrong)
    assert lines[0] == "#" + " " * 31 and lines[1] == "+" + " " * 31 and lines[7] == " " * 31 + "#"
    tall = np.zeros((80, 1), dtype=np.bool_)
    tall[0] = True
    assert sketch(tall)[0] == "."


def test_cells_of_a_grid_that_does_not_divide_evenly_show_their_own_worst_elements():
    actual = np.zeros((100, 70))
    actual[99, 69], actual[98, 69], actual[0, 0] = 2.5, -2.5, 1e-7
    wrong = np.zeros(actual.shape, dtype=np.bool_)
    wrong[0, 0] = True
    actual[1, 0] = 7.0  # in no cell of the wrong one, and allowed
    found = error_map("y", actual, np.zeros_like(actual), wrong)
    assert found["actual"][-1][-1] == -2.5  # the first of two that are as far off
    assert found["actual"][0][0] == 1e-7 and found["wrong"][0][0] == 1.0
    assert found["wrong"][1][0] == 0.0 and sum(map(sum, found["wrong"])) == 1.0

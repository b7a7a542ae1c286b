"""Planted failures shrink to the known simplest values, and no illegal value is proposed."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from support.shrink_cases import LARGE, Kernel, N, build, space

from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.shrink import CaseSpace, ShrinkBudget, ValueDomain, minimise
from gpuemu_lsp.engine.shrink.order import complexity


@pytest.mark.parametrize(
    ("fails", "expected"),
    [
        (lambda x: True, [0, 0, 0, 0, 0, 0, 0, 0]),
        (lambda x: x[3] != 0, [0, 0, 0, 1, 0, 0, 0, 0]),
        (lambda x: x[3] < 0, [0, 0, 0, -1, 0, 0, 0, 0]),
        (lambda x: x[1] > x[6], [0, 1, 0, 0, 0, 0, 0, 0]),
        (lambda x: x[0] * x[7] != 0, [1, 0, 0, 0, 0, 0, 0, 1]),
        (lambda x: x[2] != np.rint(x[2]), [0, 0, 0.5, 0, 0, 0, 0, 0]),
        (lambda x: (x != 0).all(), [1] * 8),
        (lambda x: abs(x[4]) > 2.5 and x[5] < -1.5, [0, 0, 0, 0, 3, -2, 0, 0]),
    ],
)
@pytest.mark.parametrize(
    "dtype", [np.float32, np.float16, np.float64, ml_dtypes.bfloat16], ids=lambda d: np.dtype(d).name
)
def test_values_reach_the_known_minimum(fails, expected, dtype):
    x = np.array([3.25, 7.5, -2.75, -5.5, 6.25, -7.125, 0.375, 9.5])
    start = build({"n": 8}, dtype=dtype, draw=lambda rng, shape: x)
    if not fails(start.tensors["x"].astype(float)):
        start.tensors["x"][:] = -x
    kernel = Kernel(lambda case: fails(case.tensors["x"].astype(float)))
    found = minimise(start, CaseSpace((), lambda *_: None), kernel, budget=LARGE, strategy="binary-search-values")
    assert found.case.tensors["x"].astype(float).tolist() == expected
    assert found.case.tensors["x"].dtype == np.dtype(dtype)
    assert found.changed == {"x"} and found.case.dims == {"n": 8}


@pytest.mark.parametrize(
    ("dtype", "domain", "fails", "expected"),
    [
        (np.int32, ValueDomain(0, 9), lambda x: x[1] > 4, [0, 8, 0, 0]),
        (np.int32, ValueDomain(2, 9), lambda x: x[1] > 4, [2, 8, 2, 2]),
        (np.int32, ValueDomain(-9, -2), lambda x: x[1] < -3, [-2, -8, -2, -2]),
        (np.int64, None, lambda x: x[1] > 4, [3, 8, 3, 3]),
        (np.uint8, None, lambda x: x[3] != 3, [3, 3, 3, 4]),
        (np.float32, ValueDomain(2.5, None), lambda x: True, [3] * 4),
        (np.bool_, None, lambda x: x[2], [0, 0, 1, 0]),
    ],
)
def test_only_legal_values_are_proposed(dtype, domain, fails, expected):
    x = [-7, -8, -3, -5] if domain and domain.high == -2 else [7, 8, 3, 5]
    start = build({"n": 4}, dtype=dtype, draw=lambda rng, shape: x)
    how = CaseSpace((), lambda *_: None, lambda case: {} if domain is None else {"x": domain})
    kernel = Kernel(lambda case: fails(case.tensors["x"]))
    found = minimise(start, how, kernel, strategy="binary-search-values", budget=LARGE)
    assert found.case.tensors["x"].tolist() == expected
    for case in kernel.asked:
        if domain is not None:
            low = -np.inf if domain.low is None else domain.low
            high = np.inf if domain.high is None else domain.high
            assert ((case.tensors["x"] >= low) & (case.tensors["x"] <= high)).all()


def test_indices_stay_inside_when_sizes_shrink():
    """An index below ``n`` must be below the smaller ``n`` too, or the minimised case fails for a reason of its own."""

    def make(dims):
        return build(
            dims, shape=lambda dims: (8,), dtype=np.int32, draw=lambda rng, shape: rng.integers(0, dims["n"], shape)
        )

    case = make({"n": 1000})
    case.tensors["x"][:] = 999
    how = CaseSpace((N,), lambda _, dims: make(dims), lambda case: {"x": ValueDomain(0, case.dims["n"] - 1)})
    kernel = Kernel(lambda case: (case.tensors["x"] == case.dims["n"] - 1).all() and case.dims["n"] > 40)
    found = minimise(case, how, kernel, budget=LARGE)
    assert found.case.dims == {"n": 41} and found.case.tensors["x"].tolist() == [40] * 8
    assert all((case.tensors["x"] < case.dims["n"]).all() and (case.tensors["x"] >= 0).all() for case in kernel.asked)


def test_exact_cases_stay_exact():
    kernel = Kernel(lambda case: np.count_nonzero(case.tensors["x"]) >= 3)
    start = build({"n": 64}, exact=True)
    found = minimise(start, space(N, exact=True), kernel, budget=LARGE)
    assert found.case.tensors["x"].tolist() == [1, 1, 1]
    for case in kernel.asked:
        assert (case.tensors["x"] == np.rint(case.tensors["x"])).all() and abs(case.tensors["x"]).max() <= 4


def test_special_values_are_removed_unless_they_matter():
    start = build({"n": 6}, draw=lambda rng, shape: [1.5, np.nan, -np.inf, 2.5, np.nan, 3.5])
    how = CaseSpace((), lambda *_: None)
    found = minimise(start, how, lambda case: np.isnan(case.tensors["x"][4]), budget=LARGE)
    assert np.array_equal(found.case.tensors["x"], np.array([0, 0, 0, 0, np.nan, 0], np.float32), equal_nan=True)


def test_one_of_a_million_elements_is_found_quickly():
    start = build({"n": 1 << 20})
    kernel = Kernel(lambda case: case.tensors["x"][777_777] != 0)
    budget = ShrinkBudget(max_seconds=3600.0)
    found = minimise(start, CaseSpace((), lambda *_: None), kernel, strategy="binary-search-values", budget=budget)
    (nonzero,) = np.flatnonzero(found.case.tensors["x"])
    assert nonzero == 777_777 and found.case.tensors["x"][nonzero] == 1 and found.runs < 80


def test_inputs_that_share_memory_keep_their_values():
    x = np.array([1.5, 2.5], np.float32)
    case = Case(CaseKey(1, "s"), "float32", {}, {"x": x, "y": x, "z": x}, {}, {}, (1, 1, 1), (1, 1, 1), 0,
                extra={"alias:y": "x", "alias:out": "z"})  # fmt: skip
    found = minimise(case, CaseSpace((), lambda *_: None), lambda case: True, budget=LARGE)
    assert {name: value.tolist() for name, value in found.case.tensors.items()} == {
        "x": [1.5, 2.5],
        "y": [1.5, 2.5],
        "z": [0, 0],
    }


def test_complexity_orders_values():
    order = [0, 1, -1, 2, 3, -3, 8, 100, 1e6, 0.5, 0.25, 2.5, 0.1, np.inf, np.nan]
    ranks = complexity(np.array(order, np.float64))
    assert ranks.tolist() == sorted(ranks) and len(set(ranks)) == len(ranks)

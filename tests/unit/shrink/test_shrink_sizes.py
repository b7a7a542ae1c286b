"""Planted failures shrink to the known smallest sizes, and no illegal size is tried on the way."""

from __future__ import annotations

import numpy as np
import pytest
from support.shrink_cases import LARGE, MNK, Kernel, N, build, space

from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.shrink import CaseSpace, minimise


@pytest.mark.parametrize(
    ("specs", "start", "fails", "expected"),
    [
        ((N,), (4000,), lambda n: True, (1,)),
        ((N,), (4000,), lambda n: n >= 257, (257,)),
        ((N,), (4000,), lambda n: n >= 1000, (1000,)),
        ((N,), (3999,), lambda n: n > 32 and n % 32, (33,)),
        ((N,), (4000,), lambda n: n % 256 == 0 or n == 4000, (256,)),
        ((N,), (4001,), lambda n: n % 2 and n > 100, (101,)),
        ((N,), (2,), lambda n: True, (1,)),
        ((N,), (1,), lambda n: True, (1,)),
        ((DimSpec("n", 10, 100),), (77,), lambda n: True, (10,)),
        ((DimSpec("n", 0, 100),), (77,), lambda n: True, (0,)),
        ((DimSpec("n", 1, 512, multiple_of=16),), (496,), lambda n: n > 100, (112,)),
        ((DimSpec("n", 5, 512, multiple_of=16),), (496,), lambda n: True, (16,)),
        ((DimSpec("n", 64, 64),), (64,), lambda n: True, (64,)),
        (MNK, (300, 200, 100), lambda m, n, k: True, (1, 1, 1)),
        (MNK, (300, 200, 100), lambda m, n, k: k > 16, (1, 1, 17)),
        (MNK, (300, 200, 100), lambda m, n, k: m > 16 and k % 16, (17, 1, 1)),
        (MNK, (300, 200, 100), lambda m, n, k: m >= 20 and n >= 33 and k >= 2, (20, 33, 2)),
        (MNK, (200, 200, 7), lambda m, n, k: m == n and m >= 17, (17, 17, 1)),
        (MNK, (300, 200, 7), lambda m, n, k: m == n + 100, (101, 1, 1)),
        (MNK, (480, 240, 7), lambda m, n, k: m == 2 * n and n >= 30, (60, 30, 1)),
    ],
)
def test_sizes_reach_the_known_minimum(specs, start, fails, expected):
    dims = dict(zip([spec.name for spec in specs], start, strict=True))
    kernel = Kernel(lambda case: fails(**case.dims))
    case = build(dims, shape=lambda dims: (2,))
    found = minimise(case, space(*specs, shape=lambda dims: (2,)), kernel, budget=LARGE, strategy="binary-search-dims")
    assert tuple(found.case.dims.values()) == expected
    assert found.reproduced and found.complete and found.runs == len(kernel.asked)
    assert found.case.key.dims == found.case.dims or dims == found.case.dims
    for spec in specs:
        asked = {case.dims[spec.name] for case in kernel.asked[1:]}
        assert all(size >= spec.minimum and size % spec.multiple_of == 0 for size in asked)


def test_failing_sizes_need_not_be_an_interval():
    kernel = Kernel(lambda case: case.dims["n"] in (777, 300, 301))
    found = minimise(build({"n": 777}), space(N), kernel, strategy="binary-search-dims")
    assert found.case.dims["n"] in (777, 300, 301)


def test_few_runs_are_enough_for_three_sizes():
    kernel = Kernel(lambda case: case.dims["m"] > 16 and case.dims["k"] > 100)
    dims = {"m": 500, "n": 400, "k": 300}
    small = {"shape": lambda dims: (2,)}
    found = minimise(build(dims, **small), space(*MNK, **small), kernel, strategy="binary-search-dims")
    assert tuple(found.case.dims.values()) == (17, 1, 101) and found.runs <= 100


def test_values_that_matter_are_kept_when_sizes_shrink():
    """Redrawn values at another size lack the one that matters; the cropped current ones have it."""
    case = build({"n": 900})
    case.tensors["x"][2] = np.inf
    found = minimise(case, space(N), lambda case: np.isinf(case.tensors["x"]).any(), strategy="binary-search-dims")
    assert found.case.dims == {"n": 1} and found.changed == {"x"}


def test_sizes_that_cannot_be_built_are_skipped():
    how = CaseSpace((N,), lambda _, dims: build(dims) if dims["n"] % 3 == 0 else None)
    found = minimise(build({"n": 900}), how, lambda case: case.dims["n"] > 50, budget=LARGE)
    assert found.case.dims == {"n": 51}


def test_one_size_may_grow_where_the_case_gets_smaller():
    """Two rows of one column fail, and so does one row of two: that has fewer elements."""
    specs = (DimSpec("m", 1, 70), DimSpec("k", 1, 100))
    found = minimise(build({"m": 2, "k": 7}, shape=square), space(*specs, shape=square), lambda case: cross(case.dims))
    assert found.case.dims == {"m": 1, "k": 2} and found.complete


def square(dims):
    return (dims["m"] * dims["m"] * dims["k"],)


def cross(dims):
    return dims["m"] > 1 or dims["k"] > 1

"""Generated cases: sizes, layouts, values, and rebuilding them from their keys."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from support.fuzz_plans import ALL, BLOCK_IS_SIZE, FIXED_GRID, FLAT, MATMUL, ROWS, VECTOR4, plan, scalar, tensor

from gpuemu_lsp.engine.fuzz import cases, rebuild
from gpuemu_lsp.engine.fuzz.cases import MAX_ELEMENTS, MAX_WORK
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS
from gpuemu_lsp.engine.fuzz.model import CaseKey, LaunchHints, PlanError
from gpuemu_lsp.engine.fuzz.rng import Rng, derive_seed
from gpuemu_lsp.engine.fuzz.strategies import STRATEGIES, recipe
from gpuemu_lsp.engine.fuzz.values import NON_FINITE
from gpuemu_lsp.engine.oracle.arithmetic import squares_exceed
from gpuemu_lsp.engine.plan.facts import Facts, PlanOrigin
from gpuemu_lsp.engine.plan.model import TensorArg, TritonOptions
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import DimSpec

EVERY = pytest.mark.parametrize("drawn", ALL.values(), ids=ALL.keys())


@EVERY
@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_key_rebuilds_its_case_bit_for_bit(drawn, strategy):
    for case in cases(drawn, 42, 10, LaunchHints((48,)), strategy):
        again = rebuild(drawn, case.key)
        assert again.key == case.key
        assert (again.dims, again.grid, again.block, again.extra) == (case.dims, case.grid, case.block, case.extra)
        assert (again.values, again.exact, again.finite) == (case.values, case.exact, case.finite)
        for name, value in case.tensors.items():
            assert again.tensors[name].dtype == value.dtype
            assert again.tensors[name].tobytes() == value.tobytes()


@EVERY
def test_every_case_is_launchable_and_within_the_limits(drawn):
    for case in cases(drawn, 7, 40):
        assert 0 < math.prod(case.block) <= 1024
        assert all(extent > 0 for extent in (*case.grid, *case.block))
        elements = sum(v.size for v in case.tensors.values()) + sum(map(math.prod, case.outputs.values()))
        assert elements <= MAX_ELEMENTS
        assert math.prod(case.dims.values()) <= MAX_WORK
        for dim in drawn.dims:
            value = case.dims[dim.name]
            assert (dim.minimum or 1) <= value <= (dim.maximum or 20_000)
            assert value % dim.multiple_of == 0
            assert not dim.choices or value in dim.choices


def test_seeds_are_those_of_the_original():
    seeds = [case.key.seed for case in cases(FLAT, 42, 2)]
    assert seeds == [8039093521837583556, 6907539527531710698]


def test_uniform_values_are_the_originals_stream():
    case = next(iter(cases(MATMUL, 42, 1)))
    for k, name in enumerate("ab"):
        stream = Rng(case.key.seed).derive("data").derive(f"input_{k}")
        expected = [np.float32((2 * stream.f64() - 1) * 10) for _ in range(case.tensors[name].size)]
        assert case.tensors[name].ravel().tolist() == expected


def _drawn(drawn, count=8, hints=None):
    return list(cases(drawn, 42, count, hints))


def test_eight_cases_of_an_elementwise_kernel_have_every_boundary():
    sizes = {case.dims["n"] for case in _drawn(FLAT)}
    assert min(sizes) == 1
    assert any(size % 256 == 1 for size in sizes), "one more than a block"
    assert any(size % 256 == 255 for size in sizes), "one less"
    assert any(1 < size < 8 for size in sizes)
    assert any(size > 512 and size % 256 not in (0, 1, 255) for size in sizes)


@pytest.mark.parametrize("seed", range(20))
def test_sixteen_cases_have_remainders_of_two_and_of_four(seed):
    sizes = [case.dims["n"] for case in cases(FLAT, seed, 16) if case.dims["n"] > 32]
    assert any(size % 4 == 2 for size in sizes)
    assert any(size % 4 == 0 and size % 32 for size in sizes)


@pytest.mark.parametrize("seed", range(8))
def test_a_regular_case_has_whole_tiles(seed):
    """Also where the maximum is not a multiple of the tile."""
    image = [tensor("x", "in", ["h", "w"]), tensor("y", "out", ["h", "w"])]
    dims = [DimSpec("h", 1, 20), DimSpec("w", 1, 300)]
    drawn = plan(image, dims, ["ceil_div(w, 128)", "ceil_div(h, 8)"], ["128", "8"])
    (case,) = cases(drawn, seed, 1, strategy="regular")
    assert case.dims["h"] % 8 == 0
    assert case.dims["w"] % 128 == 0


def test_a_fixed_grid_has_a_case_with_more_elements_than_threads():
    assert any(case.dims["n"] > 32 * 256 for case in _drawn(FIXED_GRID))


def test_included_values_are_always_tried():
    assert {777, 1025} <= {case.dims["cols"] for case in _drawn(ROWS)}
    many = replace(FLAT, dims=(DimSpec("n", 1, 5000, tuple(range(1000, 1010))),))
    assert set(range(1000, 1010)) <= {case.dims["n"] for case in _drawn(many, 16)}


def test_sizes_of_a_matmul_are_distinct():
    assert any(len(set(case.dims.values())) == 3 and min(case.dims.values()) > 16 for case in _drawn(MATMUL))


@pytest.mark.parametrize(
    ("drawn", "hints", "tile"),
    [
        (MATMUL, None, 16),
        (replace(ROWS, entry="rows<float, 96>"), None, 96),
        (ROWS, LaunchHints((80,)), 80),
    ],
)
def test_tiles_come_from_the_launch_the_template_and_the_source(drawn, hints, tile):
    last = drawn.dims[-1].name
    assert any(case.dims[last] % tile == 1 for case in _drawn(drawn, 40, hints) if case.dims[last] > 1)


def test_first_cases_have_other_values_than_uniform_ones():
    values = {case.values for case in _drawn(ROWS)}
    assert {"uniform", "negative", "large", "small", "mixed-rows"} <= values


def test_kernels_that_compute_in_half_precision_have_no_case_in_which_nothing_is_compared():
    half = FORMATS["float16"]
    usual = [case for case in _drawn(ROWS, 32) if squares_exceed(case, half)]
    # These find a softmax that overflows; of a kernel that computes in fp16 no output is compared in them.
    assert {case.values for case in usual} >= {"negative", "large"}
    for case in _drawn(ROWS, 32, LaunchHints(half=True)):
        assert not squares_exceed(case, half), case.key
        again = rebuild(ROWS, case.key)
        assert all(again.tensors[name].tobytes() == case.tensors[name].tobytes() for name in case.tensors)


def test_quick_cases_of_what_is_not_registered_are_finite():
    read = replace(ROWS, facts=Facts(PlanOrigin.SIGNATURE))
    assert all(case.finite and case.values not in NON_FINITE for case in _drawn(read, 60))


def test_quick_cases_have_special_values_in_inputs_without_a_range():
    special = {index: case for index, case in enumerate(_drawn(ROWS, 16)) if not case.finite}
    assert {index: case.values for index, case in special.items()} == {8: "special-rows", 12: "special-values"}
    x = special[8].tensors["x"].astype(np.float64)
    assert np.isnan(x).any() and np.isinf(x).any()
    for case in special.values():
        again = rebuild(ROWS, case.key)
        assert all(again.tensors[name].tobytes() == case.tensors[name].tobytes() for name in case.tensors)
    bounded = [replace(arg, range=(-1.0, 1.0)) if isinstance(arg, TensorArg) else arg for arg in ROWS.args]
    assert all(case.finite for case in _drawn(replace(ROWS, args=tuple(bounded)), 16))


@pytest.mark.parametrize("linear", [True, False])
def test_linear_kernels_have_an_exact_case(linear):
    drawn = _drawn(MATMUL, 8, LaunchHints(linear=linear))
    assert any(case.exact for case in drawn) == linear


def test_impossible_blocks_are_avoided():
    sizes = [case.dims["n"] for case in _drawn(BLOCK_IS_SIZE, 20)]
    assert len(sizes) == 20
    assert max(sizes) <= 1024


def test_vectors_keep_their_multiple():
    assert all(case.dims["n"] % 4 == 0 for case in _drawn(VECTOR4, 20))


@pytest.mark.parametrize(
    ("drawn", "message"),
    [
        (plan([tensor("x", "in", ["n"])], [DimSpec("n", 2000, 3000)], ["1"], ["n"]), "block.x"),
        (plan([tensor("x", "in", ["n"])], [DimSpec("n")], ["1"], ["32"], shared="1000000"), "shared"),
        (plan([tensor("x", "in", ["n - n"])], [DimSpec("n")], ["1"], ["32"]), "shape [0]"),
        (plan([tensor("x", "in", ["q"])], [DimSpec("n")], ["1"], ["32"]), "`q`"),
        (plan([tensor("x", "in", ["n"], "int32", range=(5, 5))], [DimSpec("n")], ["1"], ["32"]), "range"),
        (plan([tensor("x", "in", ["n"]), scalar("s", "n * 4000000000")], [DimSpec("n")], ["1"], ["1"]), "int32"),
    ],
)
def test_a_plan_that_cannot_be_launched_is_an_error(drawn, message):
    with pytest.raises(PlanError) as failure:
        list(cases(drawn, 1, 4))
    assert message in str(failure.value)


def test_dims_of_a_key_replace_drawn_ones():
    case = next(iter(cases(ROWS, 3, 1)))
    smaller = rebuild(ROWS, CaseKey(case.key.seed, case.key.strategy, {"rows": 2, "cols": 5}))
    assert smaller.tensors["x"].shape == (2, 5)
    assert smaller.scalars["cols"] == np.int32(5)
    flat = case.tensors["x"].ravel()[:10]
    assert case.values != "uniform" or np.array_equal(smaller.tensors["x"].ravel()[: flat.size], flat[:10])


def test_a_key_without_dims_draws_them():
    key = CaseKey(derive_seed(9, "iter_0"), "boundary")
    assert rebuild(ROWS, key).dims == rebuild(ROWS, key).dims
    with pytest.raises(PlanError):
        rebuild(BLOCK_IS_SIZE, CaseKey(1, "default", {"n": 4000}))


def test_an_unknown_strategy_is_refused():
    with pytest.raises(ValueError, match="quick"):
        recipe("quik", 0)


def test_integers_of_an_inferred_plan_are_valid_indices():
    guessed = plan(
        [tensor("i", "in", ["n"], "int32"), tensor("y", "out", ["n"])], [DimSpec("n")], ["1"], ["32"], inferred=True
    )
    for case in cases(guessed, 1, 12):
        assert case.tensors["i"].min() >= 0
        assert case.tensors["i"].max() < case.dims["n"]


def test_layouts_are_drawn_for_arguments_that_allow_them():
    free = plan(
        [
            tensor("x", "in", ["r", "c"], strided=True),
            tensor("y", "out", ["r", "c"], may_alias="z", align=4),
            tensor("z", "in", ["r", "c"]),
            scalar("ld", "x.stride(0)"),
        ],
        [DimSpec("r"), DimSpec("c")],
        ["r"],
        ["32"],
    )
    drawn = list(cases(free, 5, 24))
    assert all(not case.extra for case in cases(ROWS, 5, 24))
    assert any("stride:x" in case.extra for case in drawn)
    assert any("stride:x" not in case.extra for case in drawn)
    assert any(case.extra.get("alias:y") == "z" for case in drawn)
    assert any("offset:y" in case.extra for case in drawn)
    for case in drawn:
        steps = case.extra.get("stride:x")
        assert int(case.scalars["ld"]) == (int(steps.split(",")[0]) if steps else case.dims["c"])


def test_inputs_that_share_memory_have_the_same_values():
    """The kernel has one buffer; with two, the reference would cause a false positive."""
    shared = plan(
        [
            tensor("x", "in", ["n"]),
            tensor("y", "inout", ["n"], may_alias="x"),
            tensor("i", "in", ["n"], "int32", range=(0, 9)),
            tensor("j", "in", ["n"], "int32", range=(0, 5), may_alias="i"),
        ],
        [DimSpec("n", 1, 64)],
        ["1"],
        ["64"],
    )
    drawn = list(cases(shared, 5, 24))
    aliased = [case for case in drawn if "alias:y" in case.extra]
    assert 4 < len(aliased) < 20
    for case in drawn:
        same = case.tensors["x"].tobytes() == case.tensors["y"].tobytes()
        assert same == ("alias:y" in case.extra) or len(np.unique(case.tensors["x"])) == 1
        assert "alias:j" not in case.extra and case.tensors["j"].max() < 5
    again = rebuild(shared, aliased[0].key)
    assert again.tensors["y"].tobytes() == again.tensors["x"].tobytes()


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_every_strategy_varies_every_dim_and_every_input(strategy):
    """Independently of their names and positions."""
    several = plan(
        [
            tensor("a", "in", ["first", "second"]),
            tensor("b", "in", ["third"], "float16"),
            tensor("i", "in", ["second"], "int32", range=(0, parse("third"))),
            tensor("y", "out", ["first"]),
        ],
        [DimSpec("first", 1, 300), DimSpec("second", 1, 300), DimSpec("third", 2, 300)],
        ["first"],
        ["64"],
    )
    drawn = list(cases(several, 5, 16, None, strategy))
    for dim in ("first", "second", "third"):
        assert len({case.dims[dim] for case in drawn}) > 2, dim
    for name in ("a", "b", "i"):
        assert len({case.tensors[name].tobytes() for case in drawn}) == len(drawn) or name == "i"
    assert any(case.tensors["i"].max() == case.dims["third"] - 1 for case in drawn)
    for name in ("a", "b") if strategy in ("nan_injected", "adversarial") else ():
        assert any(not np.isfinite(case.tensors[name].astype(float)).all() for case in drawn), name


def test_bounds_may_be_expressions():
    bounded = plan(
        [tensor("i", "in", ["n"], "int64", range=(0, parse("m"))), tensor("p", "in", ["n"], range=(0.0, 1.0))],
        [DimSpec("n"), DimSpec("m", 1, 50)],
        ["1"],
        ["32"],
    )
    for case in cases(bounded, 11, 16):
        assert case.tensors["i"].min() >= 0
        assert case.tensors["i"].max() < case.dims["m"]
        assert ((case.tensors["p"] >= 0) & (case.tensors["p"] <= 1)).all()


@pytest.mark.parametrize("value", [parse("256"), parse("64 * config")])
def test_sizes_of_a_triton_kernel_pass_its_blocks_and_not_its_threads(value):
    block = replace(scalar("BLOCK", 0), value=value, constexpr=True)
    args = [tensor("x", "in", ["rows", "n"]), tensor("y", "out", ["rows"]), block]
    drawn = plan(
        args, [DimSpec("rows", 1, 12), DimSpec("n", 1, 700), DimSpec("config", choices=(1, 4))], ("rows",), ("32 * 4",)
    )
    drawn = replace(drawn, triton=TritonOptions())
    hints = LaunchHints((4, 64, 256) if value.text != "256" else (256,))
    sizes = [case.dims["n"] for case in cases(drawn, 42, 16, hints)]
    assert sum(size > 256 for size in sizes) >= 5, sizes
    assert {254, 255, 257, 258} & set(sizes), sizes


def test_a_block_larger_than_a_size_is_not_a_tile_of_it():
    drawn = plan([tensor("x", "in", ["n"])], [DimSpec("n", 1, 300)], ("1",), ("32 * 4",))
    drawn = replace(drawn, triton=TritonOptions())
    assert len({case.dims["n"] for case in cases(drawn, 42, 16, LaunchHints((1024,)))}) >= 8

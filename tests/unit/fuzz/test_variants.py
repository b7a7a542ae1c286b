"""Cases with few compile-time variants, as a save has them."""

from __future__ import annotations

from dataclasses import replace

import pytest
from support.fuzz_plans import plan, scalar, tensor

from gpuemu_lsp.engine.fuzz import cases
from gpuemu_lsp.engine.fuzz.model import LaunchHints
from gpuemu_lsp.engine.plan.model import PythonChoice, TritonOptions, VariantLimit
from gpuemu_lsp.engine.project.expressions import evaluate, parse
from gpuemu_lsp.engine.project.model import DimSpec

ROWS, COLS = DimSpec("rows", 1, 40), DimSpec("cols", 1, 1100)
SEEDS = range(12)


def constexpr(name, text):
    return replace(scalar(name, text), constexpr=True)


def triton_plan(*constexprs, dims=(ROWS, COLS), options=(), **given):
    args = [tensor("x", "in", ["rows", "cols"]), tensor("y", "out", ["rows", "cols"]), *constexprs]
    return replace(plan(args, dims, grid=("rows",), block=("128",)), triton=TritonOptions(options, **given))


def limited(made, most, **fixed):
    return replace(made, triton=replace(made.triton, limit=VariantLimit(most, fixed)))


def variants(drawn, *texts):
    return {tuple(evaluate(parse(text), case.dims) for text in texts) for case in drawn}


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("most", [1, 2])
def test_sizes_share_the_next_power_of_two(seed, most):
    made = triton_plan(constexpr("BLOCK", "next_pow2(cols)"))
    assert len(variants(cases(made, seed, 16), "next_pow2(cols)")) > 5
    drawn = list(cases(limited(made, most), seed, 16))
    blocks = variants(drawn, "next_pow2(cols)")
    assert len(drawn) == 16 and len(blocks) == most
    large = max(blocks)[0]
    assert large > 64 and (most == 1 or min(blocks)[0] <= 8)
    # Most sizes are not whole blocks.
    ragged = [case for case in drawn if case.dims["cols"] & (case.dims["cols"] - 1)]
    assert len(ragged) >= 10 and len({case.dims["cols"] for case in drawn}) >= 5
    assert len({case.dims["rows"] for case in drawn}) >= 5


def test_sizes_at_both_ends_of_a_block_are_drawn():
    made = limited(triton_plan(constexpr("BLOCK", "next_pow2(cols)")), 1)
    sizes = {case.dims["cols"] for seed in SEEDS for case in cases(made, seed, 16)}
    blocks = {64, 128, 256, 512}
    assert sizes & blocks and sizes & {block // 2 + 1 for block in blocks} and sizes & {block - 1 for block in blocks}


@pytest.mark.parametrize("seed", SEEDS)
def test_two_sizes_that_decide_share_variants(seed):
    made = triton_plan(constexpr("BM", "next_pow2(rows)"), constexpr("BN", "next_pow2(cols)"))
    drawn = list(cases(limited(made, 2), seed, 16))
    assert len(variants(drawn, "next_pow2(rows)", "next_pow2(cols)")) == 2
    assert len({(case.dims["rows"], case.dims["cols"]) for case in drawn}) >= 5


@pytest.mark.parametrize("seed", SEEDS)
def test_flags_and_lists_have_each_of_their_values(seed):
    kind = DimSpec("KIND", 1, 3, include=(1, 2, 3), choices=(1, 2, 3))
    made = triton_plan(
        constexpr("BLOCK", "next_pow2(cols)"),
        constexpr("ODD", "cols % 2"),
        dims=(kind, ROWS, COLS),
        choices=(PythonChoice("KIND", (parse(7), parse(8), parse(9)), "KIND"),),
    )
    drawn = list(cases(limited(made, 2), seed, 16))
    assert variants(drawn, "KIND") == {(1,), (2,), (3,)} and variants(drawn, "cols % 2") == {(0,), (1,)}
    assert len(variants(drawn, "KIND", "next_pow2(cols)", "cols % 2")) <= 6


@pytest.mark.parametrize("seed", SEEDS)
def test_fixed_dims_have_one_value(seed):
    warps = DimSpec("num_warps", 4, 8, include=(4, 8), choices=(4, 8))
    made = triton_plan(constexpr("BLOCK", "64"), dims=(warps, ROWS, COLS), options=(("num_warps", parse("num_warps")),))
    assert variants(cases(made, seed, 16), "num_warps") == {(4,), (8,)}
    assert variants(cases(limited(made, 2, num_warps=8), seed, 16), "num_warps") == {(8,)}


@pytest.mark.parametrize("seed", SEEDS)
def test_included_sizes_are_kept(seed):
    made = triton_plan(constexpr("BLOCK", "next_pow2(cols)"), dims=(ROWS, replace(COLS, include=(1000,))))
    drawn = list(cases(limited(made, 1), seed, 16))
    assert 1000 in {case.dims["cols"] for case in drawn}
    assert len(variants(drawn, "next_pow2(cols)")) <= 2


@pytest.mark.parametrize("seed", SEEDS)
def test_without_sizes_that_decide_cases_are_as_before(seed):
    made = triton_plan(constexpr("BLOCK", "64"))
    hints = LaunchHints((64,))
    before, after = (list(cases(one, seed, 16, hints)) for one in (made, limited(made, 1)))
    assert [case.dims for case in before] == [case.dims for case in after]


def test_sizes_are_multiples_where_they_must_be():
    made = triton_plan(constexpr("BLOCK", "next_pow2(cols)"), dims=(ROWS, replace(COLS, minimum=8, multiple_of=8)))
    for seed in SEEDS:
        drawn = list(cases(limited(made, 2), seed, 16))
        assert all(case.dims["cols"] % 8 == 0 for case in drawn)
        assert len(variants(drawn, "next_pow2(cols)")) == 2

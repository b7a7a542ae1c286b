"""Cases of plans: ranges and layouts are respected, and results can be rebuilt."""

from __future__ import annotations

import numpy as np
from support.shrink_cases import LARGE, N

from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.fuzz import cases, rebuild
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.shrink import ValueDomain, minimise
from gpuemu_lsp.engine.shrink.space import domains_of, space_of
from gpuemu_lsp.engine.store import Failure, restored


def plan_of(args, dims, grid, block, **more):
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    return Plan("k", "k", "float32", args, dims, (parse(grid),), (parse(block),), parse("0"), place, **more)


def test_declared_ranges_become_domains():
    def arg(name, dtype, low, high):
        return TensorArg(name, name, "in", dtype, (parse("n"),), (low, high))

    args = (
        arg("i", "int32", parse("0"), parse("n")),
        arg("f", "float32", -1.0, 1.0),
        arg("o", "int32", parse("0"), parse("f.size + 1")),
        TensorArg("free", "free", "in", "float32", (parse("n"),)),
        TensorArg("y", "y", "out", "float32", (parse("n"),), (0.0, 1.0)),
    )
    plan = plan_of(args, (N,), "1", "1")
    tensors = {name: np.zeros(7, np.float32 if name in ("f", "free") else np.int32) for name in ("i", "f", "o", "free")}
    case = Case(CaseKey(1, "s"), "float32", {"n": 7}, tensors, {}, {"y": (7,)}, (1, 1, 1), (1, 1, 1), 0)
    assert domains_of(plan, case) == {"i": ValueDomain(0, 6), "f": ValueDomain(-1, 1), "o": ValueDomain(0, 7)}


def test_undescribed_integers_of_an_inferred_plan_stay_below_every_size():
    args = tuple(TensorArg(name, name, "in", "int32", (parse("m"),)) for name in "ab")
    dims = (DimSpec("m"), DimSpec("n"))
    plan = plan_of(args, dims, "1", "1", inferred=True)
    tensors = {name: np.zeros(9, np.int32) for name in "ab"}
    case = Case(CaseKey(1, "s"), "float32", {"m": 9, "n": 4}, tensors, {}, {}, (1, 1, 1), (1, 1, 1), 0)
    assert domains_of(plan, case) == {"a": ValueDomain(0, 3), "b": ValueDomain(0, 3)}


def test_cases_of_the_fuzzer_shrink_and_stay_rebuildable():
    n, m = parse("n"), parse("m")
    args = (
        TensorArg("x", "x", "in", "float32", (m, n)),
        TensorArg("i", "i", "in", "int32", (m,), (parse("0"), n)),
        TensorArg("y", "y", "out", "float32", (m,)),
        ScalarArg("n", "n", "int32", n),
    )
    dims = (DimSpec("m", 1, 64), DimSpec("n", 1, 1024))
    plan = plan_of(args, dims, "m", "256")

    def fails(case):
        assert ((case.tensors["i"] >= 0) & (case.tensors["i"] < case.dims["n"])).all()
        assert case.scalars["n"] == case.dims["n"] and case.grid == (case.dims["m"], 1, 1)
        return case.dims["n"] > 32 and case.dims["m"] > 1 and (case.tensors["x"][1] != 0).any()

    start = next(case for case in cases(plan, 42, 20) if fails(case))
    found = minimise(start, space_of(plan, start), fails, budget=LARGE)
    assert found.case.dims == {"m": 2, "n": 33}
    assert np.count_nonzero(found.case.tensors["x"]) == 1 and not found.case.tensors["i"].any()
    again = rebuild(plan, found.case.key)
    changed = {name: found.case.tensors[name] for name in found.changed}
    stored = Failure("k", "float32", "r", "m", found.case.key, found.case.dims, changed, minimised_from=start.key.id)
    restored_case = restored(stored, again)
    assert restored_case is not None and restored_case.outputs == found.case.outputs
    assert {k: v.tobytes() for k, v in restored_case.tensors.items()} == {
        k: v.tobytes() for k, v in found.case.tensors.items()
    }


def test_a_failure_that_few_values_cause_is_found_by_further_draws():
    """A hash that turns negative does so for a quarter of the keys at the smallest number of slots."""
    args = tuple(TensorArg(name, name, "in", "int32", (parse(dim),)) for name, dim in (("keys", "n"), ("table", "m")))
    plan = plan_of(args, (N, DimSpec("m", 1, 300)), "1", "32")

    def fails(case):
        hashed = [(int(key) * 2654435761 + 2**31) % 2**32 - 2**31 for key in case.tensors["keys"]]
        return any(key < 0 and -key % case.dims["m"] for key in hashed)

    for seed in range(1, 16):
        start = next(case for case in cases(plan, seed, 20) if fails(case))
        assert minimise(start, space_of(plan, start), fails).case.dims == {"n": 1, "m": 2}


def strided_plan(**how):
    args = (
        TensorArg("x", "x", "in", "float32", (parse("m"), parse("n")), strided=True, **how),
        TensorArg("y", "y", "out", "float32", (parse("m"), parse("n"))),
    )
    dims = (DimSpec("m", 1, 50), DimSpec("n", 1, 300))
    return plan_of(args, dims, "m", "32")


def gap(case):
    return int(case.extra["stride:x"].split(",")[0]) - case.dims["n"] if "stride:x" in case.extra else 0


def strided_cases(plan, least=2):
    return [case for case in cases(plan, 3, 40) if gap(case) >= least]


def test_a_layout_that_does_not_matter_becomes_simple_and_keeps_its_values():
    start = strided_cases(strided_plan())[0]
    found = minimise(start, space_of(strided_plan(), start), lambda case: case.dims == start.dims, budget=LARGE)
    assert not found.case.extra and found.case.key.strategy.endswith("/plain")
    again = rebuild(strided_plan(), found.case.key)
    assert not again.extra and again.tensors["x"].tobytes() == start.tensors["x"].tobytes()


def test_a_layout_that_matters_gets_the_smallest_gap_before_sizes_shrink():
    """A failure that needs more rows the larger the gap between them is."""
    plan = strided_plan()
    for start in strided_cases(plan)[:4]:
        found = minimise(start, space_of(plan, start), lambda case: case.dims["m"] > 1 + gap(case) > 1, budget=LARGE)
        assert (found.case.dims, gap(found.case)) == ({"m": 3, "n": 1}, 1)
        assert rebuild(plan, found.case.key).extra == found.case.extra


def test_offsets_shrink_like_gaps():
    plan = strided_plan(align=4)
    start = next(case for case in strided_cases(plan) if case.extra.get("offset:x") == "12")
    found = minimise(start, space_of(plan, start), lambda case: "offset:x" in case.extra, budget=LARGE)
    assert found.case.extra["offset:x"] == "4"


def test_only_the_tensor_whose_layout_matters_keeps_one():
    args = tuple(TensorArg(name, name, "in", "float32", (parse("n"),), strided=True, align=4) for name in "abc")
    plan = plan_of(args, (N,), "1", "32")
    odd = ({"stride:a", "offset:a"}, {"stride:c"}, {"stride:a", "stride:c"})
    for needed in odd:
        start = next(case for case in cases(plan, 7, 200) if len(case.extra) > 4 and needed <= case.extra.keys())
        found = minimise(start, space_of(plan, start), lambda case: needed <= case.extra.keys(), budget=LARGE)  # noqa: B023
        names = {key.partition(":")[2] for key in needed}
        assert {key.partition(":")[2] for key in found.case.extra} == names and found.case.dims == {"n": 1}
        assert rebuild(plan, found.case.key).extra == found.case.extra


def test_sizes_shrink_with_the_redrawn_values():
    """After a redraw smaller sizes are drawn with the new class of values."""
    plan = strided_plan()
    start = next(case for case in cases(plan, 3, 40) if case.dims["n"] > 60 and not case.extra)
    assert start.values != "rising"

    def fails(case):
        return case.dims == start.dims or (case.values == "rising" and case.dims["n"] > 16)

    found = minimise(start, space_of(plan, start), fails, budget=LARGE)
    assert found.case.dims == {"m": 1, "n": 17} and found.case.values == "rising"

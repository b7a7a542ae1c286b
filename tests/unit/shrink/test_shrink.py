"""Planted failures shrink to the known minimum, and nothing illegal is ever tried on the way."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gpuemu_lsp.engine.findings import Place, Range
from gpuemu_lsp.engine.fuzz import cases, rebuild
from gpuemu_lsp.engine.fuzz.model import Case, CaseKey
from gpuemu_lsp.engine.plan.model import Plan, ScalarArg, TensorArg
from gpuemu_lsp.engine.project.expressions import parse
from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.shrink import Budget, Domain, Minimised, Space, improvements, minimise
from gpuemu_lsp.engine.shrink.order import count_key, plainness, rank_key, size_key
from gpuemu_lsp.engine.shrink.space import domains_of, space_of
from gpuemu_lsp.engine.store import Failure, restored

LARGE = Budget(max_runs=5000, max_seconds=60.0)


def build(dims, *, shape=None, dtype=np.float32, exact=False, draw=None):
    """Make a case with one input ``x`` (all dims, unless told otherwise), an index input and an output."""
    rng = np.random.default_rng(5)
    shape = tuple(dims.values()) if shape is None else shape(dims)
    x = draw(rng, shape) if draw else rng.normal(0, 10, shape)
    if exact:
        x = rng.integers(-4, 5, shape)
    return Case(CaseKey(5, "boundary", dims), "float32", dict(dims), {"x": np.asarray(x, dtype)}, {}, {"y": shape},
                (1, 1, 1), (32, 1, 1), 0, exact=exact)  # fmt: skip


def space(*specs, **how):
    return Space(tuple(specs), lambda _, dims: build(dims, **how))


class Kernel:
    """A predicate that remembers what it was asked and checks that no input was asked about twice."""

    def __init__(self, fails):
        self.fails, self.asked, self.seen = fails, [], set()

    def __call__(self, case):
        identity = (tuple(case.dims.items()), *((name, t.tobytes()) for name, t in case.tensors.items()))
        assert identity not in self.seen or self.fails(case)
        self.seen.add(identity)
        self.asked.append(case)
        return bool(self.fails(case))


# ---- sizes -----------------------------------------------------------------------------------------------------------

N = DimSpec("n", 1, 4096)
MNK = (DimSpec("m", 1, 512), DimSpec("n", 1, 512), DimSpec("k", 1, 512))


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
    """Values drawn anew at another size lose the one that matters; the cut of the present ones has it."""
    case = build({"n": 900})
    case.tensors["x"][2] = np.inf
    found = minimise(case, space(N), lambda case: np.isinf(case.tensors["x"]).any(), strategy="binary-search-dims")
    assert found.case.dims == {"n": 1} and found.changed == {"x"}


def test_sizes_that_cannot_be_built_are_skipped():
    how = Space((N,), lambda _, dims: build(dims) if dims["n"] % 3 == 0 else None)
    found = minimise(build({"n": 900}), how, lambda case: case.dims["n"] > 50, budget=LARGE)
    assert found.case.dims == {"n": 51}


# ---- values ----------------------------------------------------------------------------------------------------------


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
    found = minimise(start, Space((), lambda *_: None), kernel, budget=LARGE, strategy="binary-search-values")
    assert found.case.tensors["x"].astype(float).tolist() == expected
    assert found.case.tensors["x"].dtype == np.dtype(dtype)
    assert found.changed == {"x"} and found.case.dims == {"n": 8}


@pytest.mark.parametrize(
    ("dtype", "domain", "fails", "expected"),
    [
        (np.int32, Domain(0, 9), lambda x: x[1] > 4, [0, 8, 0, 0]),
        (np.int32, Domain(2, 9), lambda x: x[1] > 4, [2, 8, 2, 2]),
        (np.int32, Domain(-9, -2), lambda x: x[1] < -3, [-2, -8, -2, -2]),
        (np.int64, None, lambda x: x[1] > 4, [3, 8, 3, 3]),
        (np.uint8, None, lambda x: x[3] != 3, [3, 3, 3, 4]),
        (np.float32, Domain(2.5, None), lambda x: True, [3] * 4),
        (np.bool_, None, lambda x: x[2], [0, 0, 1, 0]),
    ],
)
def test_only_legal_values_are_proposed(dtype, domain, fails, expected):
    x = [-7, -8, -3, -5] if domain and domain.high == -2 else [7, 8, 3, 5]
    start = build({"n": 4}, dtype=dtype, draw=lambda rng, shape: x)
    how = Space((), lambda *_: None, lambda case: {} if domain is None else {"x": domain})
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
    how = Space((N,), lambda _, dims: make(dims), lambda case: {"x": Domain(0, case.dims["n"] - 1)})
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


def test_special_values_go_unless_they_matter():
    start = build({"n": 6}, draw=lambda rng, shape: [1.5, np.nan, -np.inf, 2.5, np.nan, 3.5])
    how = Space((), lambda *_: None)
    found = minimise(start, how, lambda case: np.isnan(case.tensors["x"][4]), budget=LARGE)
    assert np.array_equal(found.case.tensors["x"], np.array([0, 0, 0, 0, np.nan, 0], np.float32), equal_nan=True)


def test_one_of_a_million_elements_is_found_quickly():
    start = build({"n": 1 << 20})
    kernel = Kernel(lambda case: case.tensors["x"][777_777] != 0)
    budget = Budget(max_seconds=3600.0)
    found = minimise(start, Space((), lambda *_: None), kernel, strategy="binary-search-values", budget=budget)
    (nonzero,) = np.flatnonzero(found.case.tensors["x"])
    assert nonzero == 777_777 and found.case.tensors["x"][nonzero] == 1 and found.runs < 80


def test_sizes_and_values_together():
    def fails(case):
        x = case.tensors["x"]
        return case.dims["rows"] >= 2 and case.dims["cols"] > 32 and (x.reshape(case.dims["rows"], -1)[1] < 0).any()

    specs = (DimSpec("rows", 1, 64), DimSpec("cols", 1, 2048))
    found = minimise(build({"rows": 50, "cols": 1025}), space(*specs), fails, budget=LARGE)
    assert found.case.dims == {"rows": 2, "cols": 33}
    assert np.count_nonzero(found.case.tensors["x"]) == 1 and found.case.tensors["x"].min() == -1


# ---- the search ------------------------------------------------------------------------------------------------------


def wobbly(case):
    """A failure with no simple shape."""
    n, x = case.dims["n"], case.tensors["x"]
    return n > 20 and n * n % 7 in (0, 1, 2) and int(abs(x).sum()) % 3 != 0 and np.count_nonzero(x) > 5


START = next(n for n in range(2000, 1000, -1) if wobbly(build({"n": n})))


def test_every_improvement_fails_and_is_better_than_the_one_before():
    steps = list(improvements(build({"n": START}), space(N), wobbly, budget=LARGE))
    *improved, last = steps
    assert isinstance(last, Minimised) and len(improved) > 5
    keys = [(size_key(step.case), count_key(step.case), rank_key(step.case)) for step in improved]
    assert keys == sorted(keys, reverse=True) and len(set(keys)) == len(keys)
    assert all(wobbly(step.case) for step in steps)
    assert last.case is improved[-1].case and last.changed == improved[-1].changed


def test_it_is_deterministic():
    first, second = (minimise(build({"n": START}), space(N), wobbly, budget=LARGE) for _ in range(2))
    assert first.runs == second.runs and first.case.dims == second.case.dims
    assert first.case.tensors["x"].tobytes() == second.case.tensors["x"].tobytes()


@pytest.mark.parametrize("runs", [0, 1, 2, 5, 17])
def test_budget_of_runs_is_kept(runs):
    kernel = Kernel(wobbly)
    found = minimise(build({"n": START}), space(N), kernel, budget=Budget(max_runs=runs))
    assert found.runs == len(kernel.asked) == runs and not found.complete
    assert found.reproduced == (runs > 0) and wobbly(found.case)


def test_budget_of_time_and_cancelling_stop_it():
    assert minimise(build({"n": START}), space(N), wobbly, budget=Budget(max_seconds=0.0)).runs == 0
    kernel = Kernel(wobbly)
    found = minimise(build({"n": START}), space(N), kernel, cancelled=lambda: len(kernel.asked) >= 7)
    assert found.runs == 7 and not found.complete and wobbly(found.case)


def test_case_that_does_not_fail_is_said_so():
    found = minimise(build({"n": 20}), space(N), lambda case: False)
    assert not found.reproduced and found.complete and found.runs == 1 and found.case.dims == {"n": 20}


def test_what_the_predicate_raises_comes_through():
    def broken(case):
        raise OSError("executor gone")

    with pytest.raises(OSError, match="executor gone"):
        minimise(build({"n": 20}), space(N), broken)


def test_unknown_strategy_is_refused_at_once():
    with pytest.raises(KeyError):
        improvements(build({"n": 20}), space(N), wobbly, strategy="simulated-annealing")


def test_inputs_are_never_changed_in_place():
    start = build({"n": 200})
    before = start.tensors["x"].tobytes()
    minimise(start, space(N), wobbly, budget=LARGE)
    assert start.tensors["x"].tobytes() == before


def test_plainness_orders_as_a_person_would():
    order = [0, 1, -1, 2, 3, -3, 8, 100, 1e6, 0.5, 0.25, 2.5, 0.1, np.inf, np.nan]
    ranks = plainness(np.array(order, np.float64))
    assert ranks.tolist() == sorted(ranks) and len(set(ranks)) == len(ranks)


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
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    plan = Plan("k", "k", "float32", args, (N,), (parse("1"),), (parse("1"),), parse("0"), place)
    tensors = {name: np.zeros(7, np.float32 if name in ("f", "free") else np.int32) for name in ("i", "f", "o", "free")}
    case = Case(CaseKey(1, "s"), "float32", {"n": 7}, tensors, {}, {"y": (7,)}, (1, 1, 1), (1, 1, 1), 0)
    assert domains_of(plan, case) == {"i": Domain(0, 6), "f": Domain(-1, 1), "o": Domain(0, 7)}


def test_undescribed_integers_of_an_inferred_plan_stay_below_every_size():
    args = tuple(TensorArg(name, name, "in", "int32", (parse("m"),)) for name in "ab")
    dims = (DimSpec("m"), DimSpec("n"))
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    plan = Plan("k", "k", "float32", args, dims, (parse("1"),), (parse("1"),), parse("0"), place, inferred=True)
    tensors = {name: np.zeros(9, np.int32) for name in "ab"}
    case = Case(CaseKey(1, "s"), "float32", {"m": 9, "n": 4}, tensors, {}, {}, (1, 1, 1), (1, 1, 1), 0)
    assert domains_of(plan, case) == {"a": Domain(0, 3), "b": Domain(0, 3)}


def test_cases_of_the_fuzzer_shrink_and_stay_rebuildable():
    n, m = parse("n"), parse("m")
    args = (
        TensorArg("x", "x", "in", "float32", (m, n)),
        TensorArg("i", "i", "in", "int32", (m,), (parse("0"), n)),
        TensorArg("y", "y", "out", "float32", (m,)),
        ScalarArg("n", "n", "int32", n),
    )
    dims = (DimSpec("m", 1, 64), DimSpec("n", 1, 1024))
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    plan = Plan("k", "k", "float32", args, dims, (m,), (parse("256"),), parse("0"), place)

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


def test_inputs_that_share_memory_keep_their_values():
    x = np.array([1.5, 2.5], np.float32)
    case = Case(CaseKey(1, "s"), "float32", {}, {"x": x, "y": x, "z": x}, {}, {}, (1, 1, 1), (1, 1, 1), 0,
                extra={"alias:y": "x", "alias:out": "z"})  # fmt: skip
    found = minimise(case, Space((), lambda *_: None), lambda case: True, budget=LARGE)
    assert {name: value.tolist() for name, value in found.case.tensors.items()} == {
        "x": [1.5, 2.5],
        "y": [1.5, 2.5],
        "z": [0, 0],
    }


# ---- what single steps cannot reach ----------------------------------------------------------------------------------


def test_one_size_may_grow_where_the_case_gets_smaller():
    """Two rows of one column fail, and so does one row of two: that has fewer elements."""
    specs = (DimSpec("m", 1, 70), DimSpec("k", 1, 100))
    found = minimise(build({"m": 2, "k": 7}, shape=square), space(*specs, shape=square), lambda case: cross(case.dims))
    assert found.case.dims == {"m": 1, "k": 2} and found.complete


def square(dims):
    return (dims["m"] * dims["m"] * dims["k"],)


def cross(dims):
    return dims["m"] > 1 or dims["k"] > 1


def test_fewer_elements_of_larger_value():
    """A sum that must exceed a bound needs few elements if they are as large as they may be."""

    def fails(case):
        x = case.tensors["x"]
        return np.abs(x).sum() > 1000 and np.abs(x).max() < 64

    start = build({"n": 400}, draw=lambda rng, shape: rng.uniform(-60, 60, shape))
    found = minimise(start, space(N, draw=lambda rng, shape: rng.uniform(-60, 60, shape)), fails, budget=LARGE)
    assert found.case.dims == {"n": 16}  # 16 x 63 is more than 1000, 15 x 64 is not


def strided_plan(**how):
    args = (
        TensorArg("x", "x", "in", "float32", (parse("m"), parse("n")), strided=True, **how),
        TensorArg("y", "y", "out", "float32", (parse("m"), parse("n"))),
    )
    dims, place = (DimSpec("m", 1, 50), DimSpec("n", 1, 300)), Place("/k.cu", Range.of(0, 0, 0, 1))
    return Plan("k", "k", "float32", args, dims, (parse("m"),), (parse("32"),), parse("0"), place)


def gap(case):
    return int(case.extra["stride:x"].split(",")[0]) - case.dims["n"] if "stride:x" in case.extra else 0


def strided_cases(plan, least=2):
    return [case for case in cases(plan, 3, 40) if gap(case) >= least]


def test_a_layout_that_does_not_matter_becomes_plain_and_keeps_its_values():
    start = strided_cases(strided_plan())[0]
    found = minimise(start, space_of(strided_plan(), start), lambda case: case.dims == start.dims, budget=LARGE)
    assert not found.case.extra and found.case.key.strategy.endswith("/plain")
    again = rebuild(strided_plan(), found.case.key)
    assert not again.extra and again.tensors["x"].tobytes() == start.tensors["x"].tobytes()


def test_a_layout_that_matters_gets_the_smallest_gap_before_sizes_shrink():
    """Rows that overlap show where a row's start is taken for another one's: the larger the gap, the more it needs."""
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
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    plan = Plan("k", "k", "float32", args, (N,), (parse("1"),), (parse("32"),), parse("0"), place)
    odd = ({"stride:a", "offset:a"}, {"stride:c"}, {"stride:a", "stride:c"})
    for needed in odd:
        start = next(case for case in cases(plan, 7, 200) if len(case.extra) > 4 and needed <= case.extra.keys())
        found = minimise(start, space_of(plan, start), lambda case: needed <= case.extra.keys(), budget=LARGE)  # noqa: B023
        names = {key.partition(":")[2] for key in needed}
        assert {key.partition(":")[2] for key in found.case.extra} == names and found.case.dims == {"n": 1}
        assert rebuild(plan, found.case.key).extra == found.case.extra


@pytest.mark.parametrize("seed", range(6))
def test_which_of_many_wrong_elements_is_the_worst_need_not_be_luck(seed):
    """Every column is wrong, and one from the 33rd on must be the worst. Which one is hangs on all values together."""

    def fails(case):
        x = np.abs(case.tensors["x"].astype(float))
        worst = x.max(axis=0) * (1.5 + np.sin(1e3 * x.sum() + np.arange(x.shape[1])))
        return x.shape[1] > 32 and x.any() and int(np.argmax(worst)) >= 32

    def rebuild(_, dims):
        return build(dims, draw=lambda _, shape: np.random.default_rng((seed, *shape)).normal(0, 10, shape))

    how = Space((DimSpec("m", 1, 64), DimSpec("n", 1, 64)), rebuild)
    sizes = np.random.default_rng(seed).integers(40, 64, (50, 2)).tolist()
    start = next(case for case in (rebuild(None, {"m": m, "n": n}) for m, n in sizes) if fails(case))
    found = minimise(start, how, fails, budget=Budget(max_runs=200))
    assert found.case.dims == {"m": 1, "n": 33} and np.count_nonzero(found.case.tensors["x"]) == 1


def test_one_value_of_a_few_is_looked_for_patiently():
    """A hash that turns negative does so for a quarter of the keys at the smallest number of slots."""
    args = tuple(TensorArg(name, name, "in", "int32", (parse(dim),)) for name, dim in (("keys", "n"), ("table", "m")))
    place = Place("/k.cu", Range.of(0, 0, 0, 1))
    plan = Plan("k", "k", "float32", args, (N, DimSpec("m", 1, 300)), (parse("1"),), (parse("32"),), parse("0"), place)

    def fails(case):
        hashed = [(int(key) * 2654435761 + 2**31) % 2**32 - 2**31 for key in case.tensors["keys"]]
        return any(key < 0 and -key % case.dims["m"] for key in hashed)

    for seed in range(1, 16):
        start = next(case for case in cases(plan, seed, 20) if fails(case))
        assert minimise(start, space_of(plan, start), fails).case.dims == {"n": 1, "m": 2}


def test_sizes_shrink_from_the_witness_that_was_moved_to():
    """Where others than the first values fail, smaller sizes are drawn from those."""
    plan = strided_plan()
    start = next(case for case in cases(plan, 3, 40) if case.dims["n"] > 60 and not case.extra)
    assert start.values != "rising"

    def fails(case):
        return case.dims == start.dims or (case.values == "rising" and case.dims["n"] > 16)

    found = minimise(start, space_of(plan, start), fails, budget=LARGE)
    assert found.case.dims == {"m": 1, "n": 17} and found.case.values == "rising"

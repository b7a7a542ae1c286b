"""The search: its invariants, its budget, and minima that single steps do not reach."""

from __future__ import annotations

import numpy as np
import pytest
from support.shrink_cases import LARGE, Kernel, N, build, space

from gpuemu_lsp.engine.project.model import DimSpec
from gpuemu_lsp.engine.shrink import CaseSpace, ShrinkBudget, ShrinkResult, improvements, minimise
from gpuemu_lsp.engine.shrink.order import count_key, rank_key, size_key


def wobbly(case):
    """A failure that is not monotone in anything."""
    n, x = case.dims["n"], case.tensors["x"]
    return n > 20 and n * n % 7 in (0, 1, 2) and int(abs(x).sum()) % 3 != 0 and np.count_nonzero(x) > 5


START = next(n for n in range(2000, 1000, -1) if wobbly(build({"n": n})))


def test_every_improvement_fails_and_is_better_than_the_one_before():
    steps = list(improvements(build({"n": START}), space(N), wobbly, budget=LARGE))
    *improved, last = steps
    assert isinstance(last, ShrinkResult) and len(improved) > 5
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
    found = minimise(build({"n": START}), space(N), kernel, budget=ShrinkBudget(max_runs=runs))
    assert found.runs == len(kernel.asked) == runs and not found.complete
    assert found.reproduced == (runs > 0) and wobbly(found.case)


def test_budget_of_time_and_cancelling_stop_it():
    assert minimise(build({"n": START}), space(N), wobbly, budget=ShrinkBudget(max_seconds=0.0)).runs == 0
    kernel = Kernel(wobbly)
    found = minimise(build({"n": START}), space(N), kernel, cancelled=lambda: len(kernel.asked) >= 7)
    assert found.runs == 7 and not found.complete and wobbly(found.case)


def test_case_that_does_not_fail_is_not_reproduced():
    found = minimise(build({"n": 20}), space(N), lambda case: False)
    assert not found.reproduced and found.complete and found.runs == 1 and found.case.dims == {"n": 20}


def test_exceptions_of_the_predicate_propagate():
    def broken(case):
        raise OSError("executor gone")

    with pytest.raises(OSError, match="executor gone"):
        minimise(build({"n": 20}), space(N), broken)


def test_unknown_strategy_raises_at_the_call():
    with pytest.raises(KeyError):
        improvements(build({"n": 20}), space(N), wobbly, strategy="simulated-annealing")


def test_inputs_are_never_changed_in_place():
    start = build({"n": 200})
    before = start.tensors["x"].tobytes()
    minimise(start, space(N), wobbly, budget=LARGE)
    assert start.tensors["x"].tobytes() == before


def test_sizes_and_values_together():
    def fails(case):
        x = case.tensors["x"]
        return case.dims["rows"] >= 2 and case.dims["cols"] > 32 and (x.reshape(case.dims["rows"], -1)[1] < 0).any()

    specs = (DimSpec("rows", 1, 64), DimSpec("cols", 1, 2048))
    found = minimise(build({"rows": 50, "cols": 1025}), space(*specs), fails, budget=LARGE)
    assert found.case.dims == {"rows": 2, "cols": 33}
    assert np.count_nonzero(found.case.tensors["x"]) == 1 and found.case.tensors["x"].min() == -1


def test_fewer_elements_of_larger_value():
    """A sum that must exceed a bound needs few elements if they are as large as they may be."""

    def fails(case):
        x = case.tensors["x"]
        return np.abs(x).sum() > 1000 and np.abs(x).max() < 64

    start = build({"n": 400}, draw=lambda rng, shape: rng.uniform(-60, 60, shape))
    found = minimise(start, space(N, draw=lambda rng, shape: rng.uniform(-60, 60, shape)), fails, budget=LARGE)
    assert found.case.dims == {"n": 16}  # 16 x 63 is more than 1000, 15 x 64 is not


@pytest.mark.parametrize("seed", range(6))
def test_values_are_redrawn_where_the_worst_element_depends_on_all(seed):
    """Every column is wrong, and one from the 33rd on must be the worst, which depends on all values together."""

    def fails(case):
        x = np.abs(case.tensors["x"].astype(float))
        worst = x.max(axis=0) * (1.5 + np.sin(1e3 * x.sum() + np.arange(x.shape[1])))
        return x.shape[1] > 32 and x.any() and int(np.argmax(worst)) >= 32

    def rebuild(_, dims):
        return build(dims, draw=lambda _, shape: np.random.default_rng((seed, *shape)).normal(0, 10, shape))

    how = CaseSpace((DimSpec("m", 1, 64), DimSpec("n", 1, 64)), rebuild)
    sizes = np.random.default_rng(seed).integers(40, 64, (50, 2)).tolist()
    start = next(case for case in (rebuild(None, {"m": m, "n": n}) for m, n in sizes) if fails(case))
    found = minimise(start, how, fails, budget=ShrinkBudget(max_runs=200))
    assert found.case.dims == {"m": 1, "n": 33} and np.count_nonzero(found.case.tensors["x"]) == 1

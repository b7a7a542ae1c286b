"""Budgets of references that are slow, or whose rounding cannot be simulated to the end: never smaller for that."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.oracle_cases import F32, case_of, reference, rows

from gpuemu_lsp.engine.oracle import ReferenceEvaluation, call
from gpuemu_lsp.engine.oracle.arithmetic import KernelArithmetic
from gpuemu_lsp.engine.oracle.budget import error_budgets
from gpuemu_lsp.engine.oracle.perturb import rounded_operation_runs

ROWS = rows()
CASE = case_of(ROWS, "uniform", {"r": 40, "c": 60})
SOFTMAX = "x = inputs['x']\ne = np.exp(x - x.max(-1, keepdims=True))\nreturn e / e.sum(-1, keepdims=True)"
FAILING = f"calls.append(0)\nif len(calls) in fails: raise ValueError\n{SOFTMAX}"
"""The first call is the plain one."""


def evaluation(folder, body, seconds=0.0, header="import numpy as np"):
    loaded = reference(folder, body, header)
    return ReferenceEvaluation(loaded, ROWS, CASE, replace(call(loaded, ROWS, CASE), seconds=seconds), F32)


def rounded(one):
    return rounded_operation_runs(one, KernelArithmetic.of(F32, ROWS, CASE))


def test_a_slow_reference_has_the_budget_of_a_fast_one(tmp_path):
    fast, slow = evaluation(tmp_path, SOFTMAX), evaluation(tmp_path, SOFTMAX, seconds=20.0)
    assert [run.traced for run in rounded(slow)] == [True] * 4
    one, other = (error_budgets(each, {})["y"].allowed for each in (fast, slow))
    assert np.array_equal(one, other)


@pytest.mark.parametrize(
    ("fails", "traced"), [((2,), []), ((4,), [True] * 4), ((4, 7), [True] * 4), ((3, 4, 6), [False] * 3)]
)
def test_draws_in_which_the_reference_fails_are_replaced(tmp_path, fails, traced):
    one = evaluation(tmp_path, FAILING, header=f"import numpy as np\ncalls = []\nfails = {fails}")
    assert [run.traced for run in rounded(one)] == traced

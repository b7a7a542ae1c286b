"""Arguments that a reference is called with."""

from __future__ import annotations

import numpy as np
import pytest
from support.oracle_cases import case_of, plan, scalar, tensor

from gpuemu_lsp.engine.oracle.inputs import build, keywords, widened
from gpuemu_lsp.engine.oracle.reference import exact_inputs

TWO = plan(
    [
        tensor("X", "in", ["n"], "float16"),
        tensor("w", "in", ["n"], "int8", key="weight"),
        tensor("y", "out", ["n"]),
        scalar("eps", 1e-5, "float32"),
        scalar("causal", True, "bool"),
        scalar("count", "2 * n"),
    ],
    ["n"],
)
ONE = plan([tensor("input", "in", ["n"]), tensor("output", "out", ["n"]), scalar("n", "n")], ["n"])


@pytest.fixture
def two():
    case = case_of(TWO, "uniform", {"n": 7})
    return case, build(TWO, case, exact_inputs(TWO, case))


@pytest.mark.parametrize("key", ["X", "x", "input_0"])
def test_names_cases_and_positions(two, key):
    case, inputs = two
    assert inputs[key].dtype == np.float64
    assert np.array_equal(inputs[key], case.tensors["X"].astype(np.float64))
    assert key in inputs
    assert inputs.get(key) is inputs["X"]


def test_renamed_tensors_have_both_names(two):
    _, inputs = two
    assert inputs["weight"] is inputs["w"]
    assert inputs["w"].dtype == np.int64, "C promotes small integers before it computes"
    assert list(inputs) == ["X", "weight", "eps", "causal", "count"]


def test_scalars_have_the_exact_value_of_the_kernel(two):
    _, inputs = two
    assert inputs["eps"] == float(np.float32(1e-5))
    assert inputs["causal"] is True
    assert inputs["count"] == 14


def test_an_unknown_name_is_not_guessed_among_several(two):
    _, inputs = two
    with pytest.raises(KeyError, match="X, weight, eps"):
        inputs["a"]
    assert "a" not in inputs
    assert inputs.get("mask") is None


def test_a_single_tensor_is_found_by_any_name_when_indexed():
    case = case_of(ONE, "uniform", {"n": 3})
    inputs = build(ONE, case, exact_inputs(ONE, case))
    assert np.array_equal(inputs["x"], case.tensors["input"])
    assert "bias" not in inputs
    assert inputs.get("bias") is None


def test_keywords_are_those_the_function_names():
    case = case_of(TWO, "uniform", {"n": 4})
    assert keywords(TWO, case, ("eps", "n"), everything=False) == {"eps": float(np.float32(1e-5)), "n": 4}
    assert set(keywords(TWO, case, (), everything=True)) == {"eps", "causal", "count"}
    assert keywords(TWO, case, (), everything=False) == {}


@pytest.mark.parametrize(
    ("dtype", "seen"),
    [
        ("bfloat16", "float64"),
        ("float64", "float64"),
        ("uint8", "int64"),
        ("int16", "int64"),
        ("int32", "int32"),
        ("uint32", "uint32"),
        ("uint64", "uint64"),
        ("bool", "bool"),
    ],
)
def test_widening_is_exact(dtype, seen):
    drawn = plan([tensor("x", "in", ["n"], dtype)], ["n"])
    values = case_of(drawn, "uniform", {"n": 9}).tensors["x"]
    wide = widened(values, dtype)
    assert wide.dtype == seen
    assert wide.tolist() == values.astype(seen).tolist()
    assert not np.shares_memory(wide, values)

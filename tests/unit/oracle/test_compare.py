"""Element-wise comparison: NaN, Inf, formats, poison, modified inputs, invariants, messages."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from support.oracle_cases import case_of, outcome, plan, rows, tensor

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, numpy_dtype
from gpuemu_lsp.engine.oracle.budget import ErrorBudget, configured_budget
from gpuemu_lsp.engine.oracle.compare import JudgingPolicy, compare
from gpuemu_lsp.engine.oracle.outputs import ReferenceOutput
from gpuemu_lsp.engine.project.model import Invariants, Tolerance, Validation

NAN, INF = float("nan"), float("inf")


def vector(dtype="float32"):
    return plan([tensor("x", "in", ["n"]), tensor("y", "out", ["n"], dtype)], ["n"])


def judged(actual, expected, dtype="float32", tolerance=0.0, finite=True, **options):
    drawn = vector(dtype)
    case = replace(case_of(drawn, "uniform", {"n": len(actual)}), finite=finite)
    right = np.asarray(expected)
    allowed = configured_budget(right, drawn.args[1], {dtype: Tolerance(tolerance, tolerance)})
    ran = outcome(drawn, case, {"y": np.asarray(actual, dtype=numpy_dtype(dtype))})
    return compare(drawn, case, ran, ReferenceOutput({"y": right}), {"y": allowed}, JudgingPolicy(**options))


def rules(verdict):
    return [(mismatch.rule, mismatch.count) for mismatch in verdict.mismatches]


@pytest.mark.parametrize(
    ("actual", "expected", "found"),
    [
        ([1.0, NAN], [1.0, NAN], []),
        ([1.0, NAN], [1.0, 2.0], [("numeric/nan", 1)]),
        ([1.0, 2.0], [1.0, NAN], [("numeric/nan", 1)]),
        ([INF, -INF], [INF, -INF], []),
        ([INF, -INF], [-INF, -INF], [("numeric/inf", 1)]),
        ([INF, 1.0], [3.0, 1.0], [("numeric/inf", 1)]),
        ([3.0, 1.0], [INF, 1.0], [("numeric/inf", 1)]),
        ([NAN, 1.0], [INF, 1.0], [("numeric/nan", 1)]),
        ([INF, 1.0], [NAN, 1.0], [("numeric/nan", 1)]),
        ([INF, -INF], [1e300, -1e300], []),
        ([3.0e38, 1.0], [1e300, 1.0], [("numeric/inf", 1)]),
        ([0.0, -0.0], [-0.0, 0.0], []),
        ([1.0, 5.0], [1.5, 5.0], [("numeric/tolerance-exceeded", 1)]),
        ([1.0, NAN, INF], [1.5, 5.0, 1.0], [("numeric/nan", 1), ("numeric/inf", 1), ("numeric/tolerance-exceeded", 1)]),
    ],
)
def test_special_values_agree_by_position_and_sign(actual, expected, found):
    assert sorted(rules(judged(actual, expected))) == sorted(found)


@pytest.mark.parametrize(
    ("dtype", "actual", "expected", "relative"),
    [
        ("float32", [1.0, 2.5], [1.0, 2.0], 0.2),
        ("float32", [0.0, 0.0], [1e-39, -2e-39], 0.0),
        ("bfloat16", [0.0, 0.0], [1e-39, -2e-39], 0.0),
        ("float16", [0.0, 2.0**-24], [2.0**-25, 2.0**-24], 0.0),
        ("float16", [0.01, 0.02], [0.01, 0.03], 1 / 3),
    ],
)
def test_relative_errors_near_the_end_of_the_range_are_ignored(dtype, actual, expected, relative):
    form = FORMATS[dtype]
    assert judged(actual, expected, dtype).relative == pytest.approx(relative, abs=1.01 * form.roundoff, rel=1e-3)


def test_checks_of_special_values_can_be_switched_off():
    assert rules(judged([NAN, INF], [1.0, 1.0], validation=Validation(check_nan=False))) == [("numeric/inf", 1)]
    assert rules(judged([NAN, INF], [1.0, 1.0], validation=Validation(check_inf=False))) == [("numeric/nan", 1)]


def test_a_dropped_nan_is_a_warning_if_the_input_has_one():
    verdict = judged([0.0, 1.0], [NAN, 1.0], finite=False)
    assert [m.severity for m in verdict.mismatches] == [Severity.WARNING]
    assert [m.severity for m in judged([NAN, 1.0], [0.0, 1.0], finite=False).mismatches] == [None]


@pytest.mark.parametrize(
    ("dtype", "actual", "expected", "clean"),
    [
        ("float16", INF, 70000.0, True),
        ("float16", 65504.0, 70000.0, False),
        ("float16", 65504.0, 65515.0, True),
        ("float8_e4m3fn", 448.0, 1000.0, True),
        ("float8_e4m3fn", NAN, 1000.0, True),
        ("float8_e4m3fn", 416.0, 1000.0, False),
        ("float8_e5m2", 57344.0, 1e6, True),
        ("float8_e5m2", INF, 1e6, True),
        ("bfloat16", 1.0, 1.001, True),
    ],
)
def test_results_beyond_a_format(dtype, actual, expected, clean):
    assert (not judged([actual], [expected], dtype).mismatches) == clean


def test_the_nearest_value_of_the_format_always_passes():
    exact = np.array([0.1, 1 / 3, 6e-8, 1234.567])
    assert not judged(exact, exact, "float16", tolerance=0.0).mismatches
    assert judged(exact * 1.01, exact, "float16", tolerance=1e-5).mismatches


@pytest.mark.parametrize(
    ("dtype", "actual", "expected", "clean"),
    [
        ("int32", [1, -2], [1, -2], True),
        ("int32", [1, -2], [1, -3], False),
        ("int8", [-56], [200], True),
        ("uint8", [44], [300], True),
        ("int32", [7], [7.0], True),
        ("bool", [1, 0], [True, False], True),
        ("bool", [1, 1], [True, False], False),
        ("uint64", [2**63 + 1], np.array([2**63 + 1], dtype=np.uint64), True),
    ],
)
def test_integers_wrap_and_are_exact(dtype, actual, expected, clean):
    drawn = vector(dtype)
    case = case_of(drawn, "uniform", {"n": len(actual)})
    right = np.asarray(expected)
    right = right if right.dtype.kind == "f" or right.dtype == np.uint64 else right.astype(np.int64)
    nothing = ErrorBudget(np.zeros(right.shape), np.zeros(right.shape, dtype=bool))
    ran = outcome(drawn, case, {"y": np.asarray(actual, dtype=numpy_dtype(dtype))})
    found = compare(drawn, case, ran, ReferenceOutput({"y": right}), {"y": nothing}).mismatches
    assert (not found) == clean


def test_a_byte_that_is_not_a_bool_is_wrong():
    drawn = vector("bool")
    case = case_of(drawn, "uniform", {"n": 2})
    nothing = ErrorBudget(np.zeros(2), np.zeros(2, dtype=bool))
    ran = outcome(drawn, case, {"y": np.array([1, 0])}, y=np.array([1, 165], dtype=np.uint8))
    right = ReferenceOutput({"y": np.array([1, 1])})
    assert [m.index for m in compare(drawn, case, ran, right, {"y": nothing}).mismatches] == [(1,)]


@pytest.mark.parametrize("masks", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float16", "int32"])
def test_unwritten_elements(dtype, masks):
    drawn = vector(dtype)
    case = case_of(drawn, "uniform", {"n": 4})
    full = outcome(drawn, case, {"y": np.ones(4)})
    empty = outcome(drawn, case, {})
    size = numpy_dtype(dtype).itemsize
    data = np.concatenate([full.buffers["y"][: 3 * size], empty.buffers["y"][3 * size :]])
    mask = np.arange(data.size) < 3 * size
    ran = replace(full, buffers={**full.buffers, "y": data}, written={"y": mask} if masks else None)
    right = ReferenceOutput({"y": np.ones(4)})
    nothing = ErrorBudget(np.zeros(4), np.zeros(4, dtype=bool))
    found = compare(drawn, case, ran, right, {"y": nothing}).mismatches
    assert [(m.rule, m.index, m.count) for m in found] == [("numeric/unwritten-output", (3,), 1)]
    assert found[0].message == "y[3] was never written; n = 4"


def test_a_modified_input_is_reported():
    drawn = rows()
    case = case_of(drawn, "uniform", {"r": 2, "c": 3})
    changed = case.tensors["x"].copy()
    changed[1, 2] = 7
    ran = outcome(drawn, case, {"y": np.ones((2, 3))}, x=changed.view(np.uint8).ravel())
    found = compare(drawn, case, ran, None, {}).mismatches
    assert [(m.rule, m.param, m.index, m.offset) for m in found] == [("numeric/input-modified", "x", (1, 2), 20)]
    assert "x is an input" in found[0].message


def test_an_aliased_input_may_change():
    drawn = plan([tensor("x", "in", ["n"]), tensor("y", "out", ["n"], may_alias="x")], ["n"])
    case = replace(case_of(drawn, "uniform", {"n": 3}), extra={"alias:y": "x"})
    after = np.ones(3, dtype=np.float32)
    ran = outcome(drawn, case, {"y": after}, x=after.view(np.uint8))
    assert compare(drawn, case, ran, None, {}).mismatches == ()


def test_short_outputs_never_pass():
    drawn = vector()
    case = case_of(drawn, "uniform", {"n": 3})
    for data in (np.zeros(0, dtype=np.uint8), np.zeros(11, dtype=np.uint8)):
        ran = outcome(drawn, case, {"y": np.ones(3)}, y=data)
        assert [m.rule for m in compare(drawn, case, ran, None, {}).mismatches] == ["numeric/shape-mismatch"]


@pytest.mark.parametrize(
    ("invariants", "actual", "broken"),
    [
        (Invariants(non_negative=True), [1.0, -1.0], 1),
        (Invariants(non_negative=True), [1.0, 0.0], 0),
        (Invariants(no_nan=True), [1.0, NAN], 1),
        (Invariants(no_inf=True), [-INF, INF], 1),
        (Invariants(shape_preserved=True), [1.0, 2.0], 0),
    ],
)
def test_invariants(invariants, actual, broken):
    drawn = vector()
    case = case_of(drawn, "uniform", {"n": 2})
    found = compare(
        drawn, case, outcome(drawn, case, {"y": np.array(actual)}), None, {}, JudgingPolicy(invariants=invariants)
    )
    assert [m.rule for m in found.mismatches] == ["numeric/invariant"] * broken


def test_the_message_has_values_errors_and_counts():
    verdict = judged([1.0, 2.0, 3.0, 4.5], [1.0, 2.25, 3.0, 3.0], tolerance=1e-3)
    worst = verdict.mismatches[0]
    assert worst.message == (
        "y[3] = 4.5, expected 3 (error 0.5 relative, allowed 0.0013); 2 of 4 elements, first at y[1]; n = 4"
    )
    assert (worst.index, worst.first, worst.count, worst.total) == ((3,), (1,), 2, 4)
    assert (worst.expected, worst.actual, worst.error) == (3.0, 4.5, 1.5)
    assert (worst.offset, worst.size) == (12, 4)
    assert worst.ratio == pytest.approx(375, rel=1e-3)
    assert worst.ulps == pytest.approx(1.5 / 2**-22)
    assert worst.wrong.tolist() == [False, True, False, True]
    assert verdict.worst == worst.ratio

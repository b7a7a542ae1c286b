"""Outputs of sums in fp16, judged by the error of a sum in fp32."""

from __future__ import annotations

import numpy as np
import pytest
from support.oracle_cases import drawn_cases, reference, rows, verdict

from gpuemu_lsp.engine.findings import Severity
from gpuemu_lsp.engine.oracle import Numerics
from gpuemu_lsp.engine.project.model import Tolerance

ROW_SUM = "return {'y': inputs['x'].sum(axis=-1, keepdims=True) + 0 * inputs['x']}"
NARROW = Numerics(frozenset({"f16", "f32"}), (), False, frozenset({"f16"}))


def row_sum(inputs, dtype):
    x = inputs["x"]
    total = np.add.accumulate(x, axis=-1, dtype=dtype)[:, -1:]
    return {"y": np.broadcast_to(total, x.shape).astype(np.float16)}


@pytest.fixture
def cases():
    return drawn_cases(rows("float16", "float16"))


def judged(folder, cases, dtype, numerics, **options):
    loaded, drawn = reference(folder, ROW_SUM), rows("float16", "float16")
    results = [verdict(loaded, drawn, case, lambda i: row_sum(i, dtype), numerics, **options) for case in cases]
    return [mismatch for result in results for mismatch in result.mismatches]


def test_a_long_sum_in_fp16_is_a_warning(tmp_path, cases):
    found = judged(tmp_path, cases, np.float16, NARROW)
    assert {(one.rule, one.severity) for one in found} == {("numeric/narrow-sum", Severity.WARNING)}
    assert all("accumulated in fp16" in one.message for one in found)


def test_an_accumulator_of_tensor_cores_is_information(tmp_path, cases):
    numerics = Numerics(frozenset({"f16"}), (), False, frozenset({"mma.f16"}))
    assert {one.severity for one in judged(tmp_path, cases, np.float16, numerics)} == {Severity.INFORMATION}


def test_a_sum_in_fp32_is_not(tmp_path, cases):
    assert judged(tmp_path, cases, np.float32, NARROW) == []


def test_a_configured_tolerance_accepts_it(tmp_path, cases):
    assert judged(tmp_path, cases, np.float16, NARROW, tolerances={"float16": Tolerance(10.0, 10.0)}) == []

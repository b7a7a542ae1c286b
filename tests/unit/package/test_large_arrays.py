"""Outputs of more elements than are compared at a time, and the time that their references get."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gpuemu.client import Client
from gpuemu.ops.transfer import loaded, saved
from gpuemu.ops.workers import time_limit
from gpuemu.verifier.comparison import Tolerance, blocks, compare

_SHAPE = (3, 700, 301)  # 632,100 elements, in no whole number of blocks


@pytest.fixture
def project(tmp_path):
    (tmp_path / "ref.py").write_text("def double(inputs):\n    return 2 * inputs['x']\n")
    text = '[[ops]]\nname = "double"\nreference = "ref.py:double"\ninput_names = ["x"]\n{}'
    (tmp_path / "gpuemu.toml").write_text(text.format("[ops.tolerances]\nfloat32 = 1e-5\n"))
    return tmp_path


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("shape", [_SHAPE, (632_100,), (2, 300_001), (632_100, 1)])
def test_blocks_are_the_whole_array(shape, rows):
    array = np.arange(np.prod(shape)).reshape(shape)
    parts = [part for (part,) in blocks(array, rows=rows)]
    assert np.array_equal(np.concatenate([part.reshape(-1) for part in parts]), array.reshape(-1))
    assert len(parts) > 1 or (rows and len(shape) == 1)
    assert not rows or all(part.shape[-1] == shape[-1] for part in parts)


@pytest.mark.parametrize("explicit", [True, False])
@pytest.mark.parametrize("place", [(0, 0, 0), (2, 699, 300)])
def test_one_wrong_element(place, explicit):
    expected = np.random.default_rng(1).normal(size=_SHAPE)
    actual = expected.astype(np.float32)
    tolerance = Tolerance(1e-5, 1e-6, explicit)
    assert compare(actual, expected, tolerance) is None
    actual[place] += 1
    found = compare(actual, expected, tolerance)
    assert found.index == place
    assert "1 of 632100 elements differ" in found.message


def test_a_budget_for_each_element():
    expected, actual = np.zeros(_SHAPE), np.full(_SHAPE, 0.5)
    allowed = np.ones(_SHAPE)
    assert compare(actual, expected, Tolerance(0, 0), allowed={"": allowed}) is None
    allowed[2, 600, 7] = 0.25
    assert compare(actual, expected, Tolerance(0, 0), allowed={"": allowed}).index == (2, 600, 7)


def test_figures_of_an_output(project):
    x = np.random.default_rng(2).normal(size=_SHAPE).astype(np.float32)
    output = 2 * x
    output[0, 1, 2] += np.float32(3e-6)
    output[2, 600, 7] = np.nan
    result = Client(project).validate_op("double", {"x": x}, output)
    exact = 2 * x.astype(np.float64)
    error = np.abs(output.astype(np.float64) - exact)
    assert not result.passed
    assert result.failures[0]["index"] == (2, 600, 7)
    assert result.max_diff == np.nanmax(error) > 0
    assert result.max_rel_diff == np.nanmax(error / np.abs(exact))
    output[2, 600, 7] = 2 * x[2, 600, 7]
    assert Client(project).validate_op("double", {"x": x}, output).passed


def test_invariants_hold_in_every_block(project):
    with (project / "gpuemu.toml").open("a") as file:
        file.write("[ops.invariants]\nnon_negative = true\n")
    x = np.ones(_SHAPE, np.float32)
    assert Client(project).validate_op("double", {"x": x}, 2 * x).passed
    x[2, 699, 300] = -1
    result = Client(project).validate_op("double", {"x": x}, 2 * x)
    assert result.failures[0]["kind"] == "InvariantViolation"


@pytest.mark.parametrize("dtype", [np.float32, ml_dtypes.bfloat16, np.bool_, np.int64, np.complex64])
@pytest.mark.parametrize("shape", [(), (0,), (3, 4)])
def test_arrays_in_files(tmp_path, dtype, shape):
    array = np.ones(shape, dtype)
    back = loaded(saved(tmp_path, "x-", {"x": array.T}))["x"]
    assert back.dtype == array.dtype
    assert np.array_equal(back, array.T)
    back[...] = 0  # a reference may write to its inputs


def test_a_larger_call_gets_more_time():
    small, large = np.zeros(8), np.broadcast_to(np.zeros(1), (32, 1024, 1024))
    assert time_limit({"inputs": {"x": small}, "outputs": None}) == 30
    assert time_limit({"inputs": {"x": large}, "outputs": {"": large}}) == 16 * 30

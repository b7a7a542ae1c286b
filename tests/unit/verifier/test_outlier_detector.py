"""Which batches the detector calls unusual."""

from __future__ import annotations

import copy

import numpy as np
import pytest

from gpuemu.verifier import ExponentialRunningCentroidExecutionOutlierDetector as Detector


def _share(detector, features, rows, batches=300):
    random = np.random.default_rng(features + rows)
    batch = lambda: random.standard_normal((rows, features)).astype(np.float32)  # noqa: E731
    return sum(detector.is_outlier(batch()) for _ in range(batches)) / batches


@pytest.mark.parametrize("rows", [1, 8, 64])
@pytest.mark.parametrize("features", [16, 128, 1024])
def test_few_batches_of_a_stationary_distribution_are_unusual(features, rows):
    assert _share(Detector(), features, rows) <= 0.1


def test_the_documented_formula_flags_all_wide_batches():
    assert _share(Detector(legacy=True), 16, 64) <= 0.1
    assert _share(Detector(legacy=True), 128, 64) == 1.0


@pytest.mark.parametrize("features", [16, 128, 1024])
def test_unusual_batches_are_found(features):
    detector = Detector()
    _share(detector, features, 64)
    random = np.random.default_rng(5)
    batch = random.standard_normal((64, features)).astype(np.float32)
    one_row = batch.copy()
    one_row[17] *= 4
    nan = batch.copy()
    nan[3, 2] = np.nan
    for unusual in (batch * 3, batch + 4, batch * 0, one_row, nan):
        assert copy.deepcopy(detector).is_outlier(unusual)
    assert not detector.is_outlier(batch)


def test_a_batch_is_judged_before_it_is_added():
    detector = Detector(exponential_alpha=1.0)
    for _ in range(4):
        detector.is_outlier(np.random.default_rng(1).standard_normal((64, 8)))
    # With the batch's own mean as centroid a shifted batch would look like any other.
    assert detector.is_outlier(np.random.default_rng(2).standard_normal((64, 8)) + 100)


def test_each_trailing_shape_has_its_own_centroid():
    detector = Detector()
    random = np.random.default_rng(0)
    for shape in [(4, 8), (4, 16), (4, 8, 2), (4,)]:
        assert detector.is_outlier(random.standard_normal(shape) + 1)
        assert detector.is_outlier(np.asarray(random.standard_normal(shape) + 1)) in (True, False)
    assert not detector.is_outlier(np.empty((0, 8)))


def test_constant_inputs_are_unusual_once():
    detector = Detector()
    ones = np.ones((32, 64), np.float32)
    assert [detector.is_outlier(ones) for _ in range(20)] == [True] + [False] * 19
    assert detector.is_outlier(ones * 2)


def test_the_window_is_bounded():
    detector = Detector(max_distances=100)
    for _ in range(20):
        detector.is_outlier(np.random.default_rng(3).standard_normal((64, 4)))
    (known,) = detector._known.values()
    assert known.window().size == 100


def test_reset_forgets():
    detector = Detector()
    batch = np.random.default_rng(0).standard_normal((64, 4))
    detector.is_outlier(batch)
    detector.reset()
    assert detector.is_outlier(batch)

"""Value distributions: bounds for every dtype, and the property of each distribution."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS, numpy_dtype
from gpuemu_lsp.engine.fuzz.rng import Rng
from gpuemu_lsp.engine.fuzz.values import DISTRIBUTIONS, NON_FINITE, draw

DTYPES = (*FORMATS, "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "bool")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", DISTRIBUTIONS)
def test_every_distribution_supports_every_dtype(name, dtype):
    values = draw(name, Rng(1), dtype, (5, 9))
    assert values.shape == (5, 9)
    assert values.dtype == numpy_dtype(dtype)
    assert draw(name, Rng(1), dtype, (5, 9)).tobytes() == values.tobytes()
    if dtype in FORMATS and name not in NON_FINITE:
        assert np.isfinite(values.astype(np.float64)).all()


@given(
    name=st.sampled_from(DISTRIBUTIONS),
    dtype=st.sampled_from(sorted(FORMATS)),
    low=st.floats(-400, 400, width=16),
    width=st.floats(1, 40, width=16),
    seed=st.integers(0, 2**64 - 1),
)
def test_float_ranges_are_closed_and_finite(name, dtype, low, width, seed):
    wide = draw(name, Rng(seed), dtype, (37,), (low, low + width)).astype(np.float64)
    inside = (wide >= low) & (wide <= low + width)
    coarse = FORMATS[dtype].digits < 11  # eight bits may have no value at all in a narrow range
    assert np.isfinite(wide).all()
    assert inside.all() or coarse


@given(
    name=st.sampled_from(DISTRIBUTIONS),
    dtype=st.sampled_from(["int8", "uint8", "int32", "uint32", "int64", "uint64"]),
    low=st.integers(-(2**63), 2**64 - 2),
    width=st.integers(1, 2**64),
    seed=st.integers(0, 2**64 - 1),
)
def test_integer_ranges_are_half_open(name, dtype, low, width, seed):
    info = np.iinfo(dtype)
    if low > info.max or low + width <= info.min:
        with pytest.raises(ValueError, match="contains no"):
            draw(name, Rng(seed), dtype, (37,), (low, low + width))
        return
    values = draw(name, Rng(seed), dtype, (37,), (low, low + width)).ravel().tolist()
    assert all(max(low, info.min) <= value < low + width for value in values)


def test_an_index_range_has_both_ends():
    values = draw("uniform", Rng(4), "int32", (50,), (0, 1000))
    assert values.min() == 0
    assert values.max() == 999


def test_permuted_and_large_indices():
    assert sorted(draw("permuted", Rng(4), "int32", (50,), (10, 60)).tolist()) == list(range(10, 60))
    assert set(draw("permuted", Rng(4), "uint8", (50,), (0, 7)).tolist()) == set(range(7))
    for name in ("large", "extreme"):
        assert set(draw(name, Rng(4), "int64", (50,), (0, 1000)).tolist()) == {0, 999}


def test_constant_indices_are_sometimes_an_end():
    drawn = {int(draw("constant", Rng(seed), "int32", (5,), (-1, 9))[0]) for seed in range(40)}
    assert {-1, 8} <= drawn and len(drawn) > 2


def test_a_range_preserves_the_order_of_values():
    names = ("ties", "constant", "one-hot", "sorted", "rising", "permuted")
    held = {name: draw(name, Rng(8), "float64", (6, 40), (100.0, 101.0)) for name in names}
    assert all(values.min() >= 100.0 and values.max() <= 101.0 for values in held.values())
    assert np.unique(held["ties"]).tolist() == [100.0, 100.5, 101.0]
    assert len(np.unique(held["constant"])) == 1
    assert ((held["one-hot"] == 101.0).sum(-1) == 1).all() and len(np.unique(held["one-hot"])) == 2
    assert all(len(set(np.sign(np.diff(row)))) == 1 for row in held["sorted"])
    assert (np.diff(held["rising"].ravel()) > 0).all()
    assert len(np.unique(held["permuted"])) == 240


def test_properties_of_the_distributions():
    shape = (20, 30)
    take = {name: draw(name, Rng(8), "float32", shape).astype(np.float64) for name in DISTRIBUTIONS}
    assert take["positive"].min() > 0
    assert take["negative"].max() <= -1
    assert set(np.unique(take["small-integers"])) == set(range(-4, 5))
    assert set(np.unique(take["ties"])) == {-1.0, 0.0, 1.0}
    assert (take["one-hot"].sum(-1) == 1).all()
    assert np.abs(take["large"]).max() > 100
    assert (np.diff(take["sorted"], axis=-1) >= 0).all() or (np.diff(take["sorted"], axis=-1) <= 0).all()
    assert (np.diff(take["rising"].reshape(-1)) >= 0).all() and take["rising"].min() > 0
    assert np.unique(take["permuted"]).size == 600 and np.abs(take["permuted"]).max() < 10
    assert (np.abs(take["mixed-rows"]).max(-1) == 0).any()
    assert np.unique(take["constant"]).size == 1
    assert np.abs(take["denormals"]).max() < 2.0**-126
    assert not np.isfinite(take["nan-injected"]).all()
    assert 0.01 < (~np.isfinite(take["adversarial"])).mean() < 0.35
    assert np.isfinite(take["extreme"]).all()


def test_special_rows_have_one_kind_each():
    rows = draw("special-rows", Rng(8), "float32", (16, 30)).astype(np.float64)
    nan, inf, below = (mask.sum(-1) for mask in (np.isnan(rows), rows == np.inf, rows == -np.inf))
    assert ((nan > 0).astype(int) + (inf > 0) + (below > 0) <= 1).all()
    assert sorted(nan[nan > 0]) == [1, 1] and sorted(inf[inf > 0]) == [1, 1]
    assert below[below > 0].tolist().count(1) == 2 and (below == 30).sum() == 2 and (below > 1).sum() == 4
    assert np.isfinite(rows[below < 30, 0]).sum() >= 12
    assert ((rows == 0) & np.signbit(rows)).any() and ((rows != 0) & (np.abs(rows) < 2.0**-126)).any()
    vector = draw("special-rows", Rng(8), "float32", (100,))
    assert np.isnan(vector).sum() == 1 and not np.isinf(vector).any()


def test_special_values_are_in_any_place_but_for_rows_that_begin_with_minus_infinity():
    rows = draw("special-values", Rng(3), "float32", (400, 20)).astype(np.float64)
    assert np.isnan(rows[:, 0]).any() and (rows[:, 0] == np.inf).any() and not (rows[:, 0] == -np.inf).any()
    assert (rows[:, 1:] == -np.inf).any()


def test_a_masked_row_is_one_row_of_a_matrix():
    for seed in range(6):
        rows = draw("masked-row", Rng(seed), "float32", (4, 9))
        assert sorted((rows == -np.inf).sum(-1))[:3] == [0, 0, 0] and (rows == -np.inf).sum() in (4, 5, 9)
    assert np.isfinite(draw("masked-row", Rng(1), "float32", (30,))).all()


def test_narrow_floats_are_rounded_to_nearest():
    exact = (2 * np.array([Rng(3).derive("x").f64() for _ in range(1)]) - 1) * 10
    assert draw("uniform", Rng(3).derive("x"), "float16", (1,))[0] == np.float16(exact[0])
    five = draw("uniform", Rng(3), "bfloat16", (100,), (5.0, 5.0))
    assert (five.astype(np.float64) == 5.0).all()


def test_vectors_combine_zeros_of_one_input_with_large_values_of_another():
    first, second = (draw("mixed-rows", Rng(seed), "float32", (200,)) for seed in (1, 2))
    assert ((first == 0) & (np.abs(second) > 1)).any()
    assert ((first == 0) & (second == 0)).any()
    assert ((np.abs(first) > 1) & (second == 0)).any()


def test_negative_rows_alternate_in_magnitude():
    rows = draw("negative", Rng(8), "float32", (20, 30))
    assert (rows < 0).all()
    assert sorted({bool(far) for far in (rows < -200).all(-1)}) == [False, True]
    assert ((rows < -200).all(-1) | (rows > -11).all(-1)).all()


@pytest.mark.parametrize(("dtype", "bounds"), [("bool", None), ("int8", (0, 2)), ("int32", (0, 2))])
@pytest.mark.parametrize("seed", range(4))
def test_masks_have_rows_without_and_rows_of_nothing_else(dtype, bounds, seed):
    mask = draw("mixed-rows", Rng(seed), dtype, (6, 40), bounds)
    counts = set((mask != 0).sum(axis=-1).tolist())
    assert {0, 40} < counts


def test_special_runs_have_rows_and_tiles_of_minus_infinity_whatever_their_length():
    values = draw("special-runs", Rng(5), "float32", (20_000,)).astype(np.float64)
    for length in (1, 32, 128, 1000):
        rows = values[: values.size // length * length].reshape(-1, length)
        masked = (rows == -np.inf).all(axis=1)
        assert masked.any()
        assert not masked.all()
    assert np.isnan(values).any()
    assert (values == np.inf).any()
    assert draw("special-runs", Rng(5), "float32", (1,)).size == 1

"""Traced arrays: operations that round, exact ones, and values that leave the trace."""

from __future__ import annotations

import math

import numpy as np
import pytest

from gpuemu_lsp.engine.fuzz.dtypes import FORMATS
from gpuemu_lsp.engine.oracle.rounding import MonteCarloArithmetic
from gpuemu_lsp.engine.oracle.trace import TracedArray, plain, traced, traced_globals

UNIT = 2.0**-20
X = np.linspace(0.1, 5.0, 64).reshape(8, 8)


def arithmetic(seed=1, sign=1.0):
    return MonteCarloArithmetic(UNIT, UNIT, FORMATS["float32"], seed, sign)


@pytest.mark.parametrize(
    ("function", "least", "most"),
    [
        (lambda x: x * x, 0.5, 1),
        (lambda x: x + 1, 0.5, 1),
        (lambda x: x / 3, 0.5, 1),
        (np.sqrt, 0.5, 1),
        (np.exp, 2, 4),
        (np.tanh, 2, 4),
        (lambda x: np.add.reduce(x, axis=-1), 0.5, 4),
        (lambda x: x.sum(axis=-1, keepdims=True), 0.5, 4),
        (lambda x: x.mean(axis=0), 0.2, 4),
        (lambda x: x @ x, 0.5, 4),
        (lambda x: x.dot(x), 0.5, 4),
        (lambda x: np.einsum("ij,jk->ik", x, x), 0.5, 4),
        (lambda x: x.cumsum(axis=0), 0.01, 30),
        (lambda x: np.vectorize(math.erf)(x), 2, 4),
    ],
)
def test_operations_round_by_their_size(function, least, most):
    exact, rounded = function(X), function(traced(X.copy(), arithmetic()))
    assert isinstance(rounded, TracedArray)
    error = np.abs(plain(rounded) - exact) / np.abs(exact) / UNIT
    assert error.max() <= most
    assert error.max() >= least


@pytest.mark.parametrize(
    "function",
    [
        lambda x: -x,
        np.abs,
        lambda x: np.maximum(x, 2.0),
        lambda x: x.max(axis=-1),
        np.floor,
        lambda x: x[::-1, 2:].T.reshape(-1),
        lambda x: np.where(x > 1, x, 0.0),
        lambda x: np.concatenate([x, x]),
        lambda x: np.sort(x, axis=0),
        lambda x: x > 2,
        lambda x: np.argmax(x, axis=-1),
    ],
)
def test_copies_and_comparisons_are_exact(function):
    assert np.array_equal(plain(function(traced(X.copy(), arithmetic()))), function(X))


def test_opposite_signs_give_opposite_errors():
    up = plain(np.exp(traced(X.copy(), arithmetic(3, 1.0)))) - np.exp(X)
    down = plain(np.exp(traced(X.copy(), arithmetic(3, -1.0)))) - np.exp(X)
    assert np.allclose(up, -down, rtol=1e-6)


def test_overflow_and_underflow_are_those_of_the_kernel():
    huge = traced(np.array([1e30, 1e-30, 3.0]), arithmetic())
    squared = plain(huge * huge)
    assert squared[0] == np.inf
    assert squared[1] == 0
    with np.errstate(invalid="ignore"):
        assert np.isnan(plain(np.log(traced(np.array([-1.0]), arithmetic()))))


def test_errors_of_equal_and_absorbed_terms_add_up():
    def move(values):
        return abs(float(plain(traced(values, arithmetic()).sum(axis=0))) - values.sum()) / values.sum() / UNIT

    random = np.random.default_rng(0).uniform(0.5, 1, 4096)
    assert move(np.full(4096, 0.7)) > 10 * move(random)
    assert move(np.concatenate([[1e7], random])) > 1e-4 / UNIT, "each term is below the last place of the sum"


def test_squared_differences_have_the_error_of_what_cancelled():
    shifted = X + 1000
    calm = traced(X.copy(), arithmetic())
    wild = traced(shifted.copy(), arithmetic())
    spread = [np.ptp(plain(x.var(axis=-1)) - x.view(np.ndarray).var(axis=-1)) for x in (calm, wild)]
    assert spread[1] > 1000 * spread[0]


def test_conversions_to_python_numbers_are_counted():
    rounding = arithmetic()
    x = traced(X.copy(), rounding)
    float(x[0, 0])
    assert rounding.leaks == 1
    x[0, 0] + 1.0
    assert rounding.leaks == 1


def reference_like(x):
    return np.asarray(x, dtype=np.float64) * np.arange(8.0)


def test_numpy_functions_of_the_module_keep_the_trace():
    rounding = arithmetic()
    with traced_globals(reference_like, rounding):
        result = reference_like(traced(X.copy(), rounding))
    assert isinstance(result, TracedArray)
    assert not np.array_equal(plain(result), reference_like(X))
    assert type(reference_like(X)) is np.ndarray


def test_every_element_of_a_spectrum_has_a_normwise_error():
    """Of one frequency all others are zero; a correct kernel has roundoffs of that one there."""
    wave = np.cos(2 * np.pi * 5 * np.arange(64) / 64)
    rounded = plain(np.fft.fft(traced(wave, arithmetic())))
    error = np.abs(rounded - np.fft.fft(wave)) / UNIT / np.sqrt(np.sum(wave**2))
    assert error.min() > 0.5
    assert error.max() < 40


@pytest.mark.parametrize(
    "function",
    [lambda z: z * z, lambda z: z + 1, lambda z: z / (2 + 1j), np.abs, lambda z: z @ z.T, lambda z: z.sum(axis=0)],
)
def test_complex_numbers_round_in_both_parts(function):
    z = X + 1j * X[::-1]
    exact, rounded = function(z), function(traced(z, arithmetic()))
    assert isinstance(rounded, TracedArray)
    for part in (np.real, np.imag) if np.iscomplexobj(exact) else (np.real,):
        error = np.abs(part(plain(rounded)) - part(exact)) / np.abs(exact) / UNIT
        assert 0.3 < error.max() < 8


def _in_place(x):
    y = x.copy()
    y += x
    y *= x
    return y


def _into_a_given_array(x):
    out = np.empty_like(x)
    np.exp(x, out=out)
    return out


@pytest.mark.parametrize("function", [_in_place, _into_a_given_array])
def test_operations_in_place_round_like_others(function):
    exact = function(X)
    moved = np.abs(plain(function(traced(X.copy(), arithmetic()))) - exact) / np.abs(exact)
    assert 0.4 * UNIT < moved.max() < 5 * UNIT


def test_elements_left_out_by_where_keep_their_values():
    x = traced(X.copy(), arithmetic())
    y = np.zeros_like(X)
    np.add(x, x, out=y, where=X > 3)
    assert (y[X <= 3] == 0).all() and np.allclose(y[X > 3], 2 * X[X > 3], rtol=1e-5)


@pytest.mark.parametrize(
    "scaled",
    [
        lambda x: x * 3.0,
        lambda x: x / 3.0,
        lambda x: x @ np.eye(8),
        lambda x: np.where(x > 0, x * 3.0, -np.inf),
        lambda x: (x * 3.0)[::2],
    ],
)
def test_a_product_that_is_subtracted_from_itself_leaves_its_rounding_error(scaled):
    """A compiler may contract the subtraction, so that one of the two products is not rounded."""

    def rest(x):
        product = scaled(x)
        return product - product.max(axis=-1, keepdims=True)

    with traced_globals(scaled, arithmetic()):
        rounded = plain(rest(traced(X.copy(), arithmetic())))
    largest = rounded[np.arange(len(rounded)), np.argmax(rest(X), axis=-1)]
    assert np.all(np.abs(largest) > 0.4 * UNIT * np.abs(scaled(X)).max(axis=-1))


def test_inputs_that_are_subtracted_leave_none():
    x = traced(X.copy(), arithmetic())
    assert np.all(plain(x - x.max(axis=-1, keepdims=True))[:, -1] == 0)


def test_a_softmax_of_one_term_is_not_exactly_one():
    """A compiler may compute the exponential twice and contract the subtraction in one of them."""
    scores = traced(np.full((8, 1), 100.0), arithmetic()) * 3.0
    exponentials = np.exp(scores - scores.max(axis=-1, keepdims=True))
    assert np.all(plain(exponentials / exponentials.sum(axis=-1, keepdims=True)) != 1)

"""Gradients in narrow formats against finite differences: rounding is not an error, another formula is one."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

from gpuemu.differences import compared_gradient

CASES = {
    # One probability is close to 1: its gradient is close to 0, and the error of its backward pass is not.
    "saturated": np.array([[8.0, 0.0], [2.0, 0.5]]),
    "spread": np.random.default_rng(0).uniform(-10, 10, (4, 9)),
    "flat": np.random.default_rng(1).uniform(-0.1, 0.1, (4, 9)),
}


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def backward(x, g, dtype, factor=1.0):
    """Compute the gradient as a framework does: every operation rounds to the format."""
    p, g = softmax(x).astype(dtype), g.astype(dtype)
    dot = (p * g).astype(np.float32).sum(-1, keepdims=True).astype(dtype)
    return p * (g - dot) * dtype(factor)


def message(x, grad, g, dtype):
    roundoff = float(ml_dtypes.finfo(dtype).eps) / 2
    return compared_gradient(lambda values: softmax(values["x"]) * g, {"x": x}, "x", grad, (1e-5, 1e-3), roundoff)


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("case", CASES)
def test_rounding_of_a_backward_pass_is_not_a_difference(case, dtype):
    x = CASES[case].astype(dtype).astype(np.float64)
    g = np.random.default_rng(2).integers(-16, 17, x.shape) / 8
    assert message(x, backward(x, g, dtype), g, dtype) is None
    assert "expected" in message(x, backward(x, g, dtype, 1.5), g, dtype)
    assert "expected" in message(x, softmax(x) * g, g, dtype)

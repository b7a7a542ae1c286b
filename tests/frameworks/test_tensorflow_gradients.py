"""Planted errors in forward and backward of small TensorFlow functions are found, and correct ones pass."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf

from gpuemu.frameworks.tensorflow import GradientNotCheckedError, check_backward


def make(forward, backward):
    """Return a function with a gradient of its own: `backward(args, g)` returns a gradient, or a tuple of them."""

    @tf.custom_gradient
    def op(*args):
        return forward(*args), lambda g: backward(args, g)

    return op


def _array(seed, *shape):
    return tf.constant(np.random.default_rng(seed).standard_normal(shape), tf.float32)


X, Y, W, A, M = _array(1, 6, 5), _array(2, 6, 5), _array(3, 5), _array(4, 6, 7), _array(5, 7, 5)
mean, total = tf.reduce_mean, tf.reduce_sum


def _c(value, like):
    return tf.cast(value, like.dtype)


def _sigmoid(x):
    return 1 / (1 + tf.exp(-x))


def _rms(x, w):
    return x * tf.math.rsqrt(mean(x * x, -1, keepdims=True) + _c(1e-6, x)) * w


def _rms_backward(args, g, centred=True, scale=1.0):
    x, w = args
    r = tf.math.rsqrt(mean(x * x, -1, keepdims=True) + _c(1e-6, x))
    dot = total(g * w * x, -1, keepdims=True)
    return (r * g * w - (r**3 * x * dot / x.shape[-1] if centred else 0)) * scale, total(g * x * r, 0)


def _softmax_backward(args, g, centred=True):
    p = tf.nn.softmax(args[0])
    return p * (g - (total(g * p, -1, keepdims=True) if centred else 0))


def _layer_norm(x):
    centred = x - mean(x, -1, keepdims=True)
    return centred * tf.math.rsqrt(mean(centred * centred, -1, keepdims=True) + _c(1e-5, x))


def _log_softmax(x):
    return x - tf.reduce_logsumexp(x, -1, keepdims=True)


def _spread(g, like, scale=1.0):
    return tf.broadcast_to(g[:, None] * scale, like.shape)


def _matmul(a, b):
    return tf.matmul(a, b)


REFERENCES = {
    "square": lambda x: x * x,
    "sigmoid": tf.sigmoid,
    "tanh": tf.tanh,
    "silu": lambda x: x * tf.sigmoid(x),
    "gelu": lambda x: 0.5 * x * (1 + tf.tanh(0.7978845608028654 * (x + 0.044715 * x**3))),
    "relu": tf.nn.relu,
    "exp": tf.exp,
    "softplus": tf.math.softplus,
    "mul": lambda x, y: x * y,
    "sum": lambda x: total(x, 1),
    "mean": lambda x: mean(x, 1),
    "softmax": tf.nn.softmax,
    "matmul": _matmul,
    "rms": _rms,
    "layer_norm": _layer_norm,
    "log_softmax": _log_softmax,
    "cumsum": lambda x: tf.cumsum(x, 1),
    "max": lambda x: tf.reduce_max(x, 1),
    "rows": lambda x: tf.gather(x, [3, 0, 3]),
    "pair": lambda x, y: {"sum": x + y, "product": x * y},
}
INPUTS = {name: [X] for name in REFERENCES} | {
    "mul": [X, Y],
    "pair": [X, Y],
    "matmul": [A, M],
    "rms": [X, W],
}
CORRECT = {
    "square": make(lambda x: x * x, lambda a, g: g * 2 * a[0]),
    "sigmoid": make(_sigmoid, lambda a, g: g * (s := _sigmoid(a[0])) * (1 - s)),
    "tanh": make(tf.tanh, lambda a, g: g * (1 - tf.tanh(a[0]) ** 2)),
    "silu": make(lambda x: x * _sigmoid(x), lambda a, g: g * (s := _sigmoid(a[0])) * (1 + a[0] * (1 - s))),
    "gelu": tf.function(REFERENCES["gelu"]),
    "relu": make(lambda x: tf.maximum(x, _c(0, x)), lambda a, g: g * _c(a[0] > 0, g)),
    "exp": make(tf.exp, lambda a, g: g * tf.exp(a[0])),
    "softplus": make(lambda x: tf.math.log1p(tf.exp(x)), lambda a, g: g * _sigmoid(a[0])),
    "mul": make(lambda x, y: x * y, lambda a, g: (g * a[1], g * a[0])),
    "sum": make(
        lambda x: tf.linalg.matvec(x, tf.ones_like(x[0])), lambda a, g: tf.broadcast_to(g[:, None], a[0].shape)
    ),
    "mean": make(lambda x: total(x, 1) / 5, lambda a, g: _spread(g, a[0], 0.2)),
    "softmax": make(lambda x: tf.exp(_log_softmax(x)), _softmax_backward),
    "matmul": make(
        lambda a, b: tf.einsum("ij,jk->ik", a, b),
        lambda a, g: (tf.matmul(g, a[1], transpose_b=True), tf.matmul(a[0], g, transpose_a=True)),
    ),
    "rms": make(_rms, _rms_backward),
    "layer_norm": tf.function(_layer_norm),
    "log_softmax": tf.recompute_grad(_log_softmax),
    "cumsum": make(lambda x: tf.cumsum(x, 1), lambda a, g: tf.cumsum(g, 1, reverse=True)),
    "max": make(
        lambda x: tf.sort(x, 1)[:, -1],
        lambda a, g: g[:, None] * _c(a[0] == tf.reduce_max(a[0], 1, keepdims=True), g),
    ),
    "rows": lambda x: tf.stack([x[3], x[0], x[3]]),
    "pair": lambda x, y: {"sum": y + x, "product": y * x},
}
PLANTED = {
    "square: factor": ("square", make(lambda x: x * x, lambda a, g: g * a[0])),
    "square: sign": ("square", make(lambda x: x * x, lambda a, g: -2 * g * a[0])),
    "square: forward": ("square", make(lambda x: x * x * 1.001, lambda a, g: g * 2 * a[0])),
    "sigmoid: term": ("sigmoid", make(_sigmoid, lambda a, g: g * _sigmoid(a[0]))),
    "tanh: saved the result": ("tanh", make(tf.tanh, lambda a, g: g * (1 - tf.tanh(tf.tanh(a[0])) ** 2))),
    "silu: term": ("silu", make(lambda x: x * _sigmoid(x), lambda a, g: g * _sigmoid(a[0]))),
    "gelu: another formula": ("gelu", lambda x: tf.nn.gelu(x, approximate=False)),
    "relu: leaks": ("relu", make(tf.nn.relu, lambda a, g: tf.where(a[0] > 0, g, 0.01 * g))),
    "exp: no cotangent": ("exp", make(tf.exp, lambda a, g: tf.exp(a[0]))),
    "softplus: scale": ("softplus", make(tf.math.softplus, lambda a, g: g * _sigmoid(2 * a[0]))),
    "mul: swapped": ("mul", make(lambda x, y: x * y, lambda a, g: (g * a[0], g * a[1]))),
    "sum: mean": ("sum", make(lambda x: total(x, 1), lambda a, g: _spread(g, a[0], 0.2))),
    "mean: stopped": ("mean", lambda x: mean(tf.stop_gradient(x), 1) + 0 * total(x, 1)),
    "softmax: not centred": ("softmax", make(tf.nn.softmax, lambda a, g: _softmax_backward(a, g, centred=False))),
    "matmul: reversed": (
        "matmul",
        make(_matmul, lambda a, g: (tf.matmul(g, a[1], transpose_b=True), tf.matmul(a[0], g, transpose_a=True)[::-1])),
    ),
    "matmul: bfloat16": (
        "matmul",
        lambda a, b: tf.cast(tf.matmul(tf.cast(a, tf.bfloat16), tf.cast(b, tf.bfloat16)), a.dtype),
    ),
    "rms: not centred": ("rms", make(_rms, lambda a, g: _rms_backward(a, g, centred=False))),
    "rms: scale": ("rms", make(_rms, lambda a, g: _rms_backward(a, g, scale=1.01))),
    "layer_norm: n - 1": ("layer_norm", lambda x: _layer_norm(x) * _c((4 / 5) ** 0.5, x)),
    "cumsum: not reversed": ("cumsum", make(lambda x: tf.cumsum(x, 1), lambda a, g: tf.cumsum(g, 1))),
    "rows: once": ("rows", lambda x: tf.stack([x[3], x[0], tf.stop_gradient(x[3])])),
    "pair: one output": ("pair", lambda x, y: {"sum": x + y, "product": x * tf.stop_gradient(y)}),
}


@pytest.mark.parametrize("name", CORRECT)
def test_a_correct_function_passes(name):
    check = check_backward(CORRECT[name], INPUTS[name], REFERENCES[name])
    assert not check.failures
    assert check.passed


@pytest.mark.parametrize("name", PLANTED)
def test_a_planted_error_is_found(name):
    reference, op = PLANTED[name]
    check = check_backward(op, INPUTS[reference], REFERENCES[reference])
    assert check.failures
    assert not check.passed


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["silu", "softmax", "matmul", "rms", "log_softmax", "layer_norm"])
def test_narrow_formats(name, dtype):
    inputs = [tf.cast(one, dtype) for one in INPUTS[name]]
    assert check_backward(REFERENCES[name], inputs, REFERENCES[name]).passed


@pytest.mark.parametrize("name", ["square", "softmax", "matmul", "layer_norm", "relu", "pair"])
def test_finite_differences(name):
    assert check_backward(REFERENCES[name], INPUTS[name]).passed
    wrong = next(op for reference, op in PLANTED.values() if reference == name)
    if name != "layer_norm":  # that one is wrong in the forward pass alone
        assert check_backward(wrong, INPUTS[name]).failures


def test_messages_and_variables():
    check = check_backward(PLANTED["square: factor"][1], {"x": tf.Variable(X)}, lambda x: x * x)
    (failure,) = check.failures
    assert failure.tensor == "grad of x"
    assert failure.expected == pytest.approx(2 * failure.actual)
    assert check_backward(lambda x: x * x + 1e-4, [X], lambda x: x * x, atol=1e-3).passed


def test_what_was_not_checked_is_not_passed():
    with pytest.raises(GradientNotCheckedError, match="no input"):
        check_backward(lambda x: x + 1, [tf.range(3)])
    with pytest.raises(GradientNotCheckedError, match="no result has a gradient"):
        check_backward(lambda x: tf.argmax(x, 1), [X], lambda x: tf.argmax(x, 1))
    with pytest.raises(GradientNotCheckedError, match="less than fp64"):
        check_backward(lambda x: tf.cast(x * x, tf.float32), [X])
    with pytest.raises(GradientNotCheckedError, match="cannot be differentiated in fp64"):
        check_backward(lambda x: x * x, [X], lambda x: tf.reshape(x, [3]))
    assert check_backward(lambda x: tf.reshape(x, [3]), [X], lambda x: x).failures[0].kind == "ExecutionError"

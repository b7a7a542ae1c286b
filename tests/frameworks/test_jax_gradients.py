"""Planted errors in forward and backward of small JAX functions are found, and correct ones pass."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from gpuemu.frameworks.jax import GradientNotCheckedError, check_backward


def make(forward, backward):
    """Return a function with a derivative of its own: `backward(args, g)` returns a gradient, or a tuple of them."""

    @jax.custom_vjp
    def op(*args):
        return forward(*args)

    def pull(args, g):
        grads = backward(args, g)
        return grads if isinstance(grads, tuple) else (grads,)

    op.defvjp(lambda *args: (forward(*args), args), pull)
    return op


def _array(seed, *shape):
    return jnp.asarray(np.random.default_rng(seed).standard_normal(shape), jnp.float32)


X, Y, W, A, M = _array(1, 6, 5), _array(2, 6, 5), _array(3, 5), _array(4, 6, 7), _array(5, 7, 5)


def _sigmoid(x):
    return 1 / (1 + jnp.exp(-x))


def _rms(x, w):
    return x * jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6) * w


def _rms_backward(args, g, mean=True, scale=1.0):
    x, w = args
    r = jax.lax.rsqrt(jnp.mean(x * x, -1, keepdims=True) + 1e-6)
    dot = (g * w * x).sum(-1, keepdims=True)
    return (r * g * w - (r**3 * x * dot / x.shape[-1] if mean else 0)) * scale, (g * x * r).sum(0)


def _softmax_backward(args, g, centred=True):
    p = jax.nn.softmax(args[0], -1)
    return p * (g - ((g * p).sum(-1, keepdims=True) if centred else 0))


def _layer_norm(x):
    return (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, keepdims=True) + 1e-5)


def _log_softmax(x):
    return x - jax.nn.logsumexp(x, -1, keepdims=True)


REFERENCES = {
    "square": lambda x: x * x,
    "sigmoid": jax.nn.sigmoid,
    "tanh": jnp.tanh,
    "silu": jax.nn.silu,
    "gelu": lambda x: jax.nn.gelu(x, approximate=True),
    "relu": jax.nn.relu,
    "exp": jnp.exp,
    "softplus": jax.nn.softplus,
    "mul": lambda x, y: x * y,
    "sum": lambda x: x.sum(1),
    "mean": lambda x: x.mean(1),
    "softmax": lambda x: jax.nn.softmax(x, -1),
    "matmul": lambda a, b: a @ b,
    "rms": _rms,
    "layer_norm": _layer_norm,
    "log_softmax": _log_softmax,
    "cumsum": lambda x: jnp.cumsum(x, 1),
    "max": lambda x: x.max(1),
    "scan": lambda x: jax.lax.scan(lambda c, row: (c * 0.5 + row, c), jnp.zeros(5, x.dtype), x)[0],
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
    "tanh": make(jnp.tanh, lambda a, g: g * (1 - jnp.tanh(a[0]) ** 2)),
    "silu": make(lambda x: x * _sigmoid(x), lambda a, g: g * (s := _sigmoid(a[0])) * (1 + a[0] * (1 - s))),
    "gelu": jax.jit(REFERENCES["gelu"]),
    "relu": make(lambda x: jnp.maximum(x, 0), lambda a, g: g * (a[0] > 0)),
    "exp": make(jnp.exp, lambda a, g: g * jnp.exp(a[0])),
    "softplus": make(lambda x: jnp.log1p(jnp.exp(x)), lambda a, g: g * _sigmoid(a[0])),
    "mul": make(lambda x, y: x * y, lambda a, g: (g * a[1], g * a[0])),
    "sum": make(lambda x: x @ jnp.ones(5, x.dtype), lambda a, g: jnp.broadcast_to(g[:, None], a[0].shape)),
    "mean": make(lambda x: x.sum(1) / 5, lambda a, g: jnp.broadcast_to(g[:, None] / 5, a[0].shape)),
    "softmax": make(lambda x: jnp.exp(_log_softmax(x)), _softmax_backward),
    "matmul": make(lambda a, b: (b.T @ a.T).T, lambda a, g: (g @ a[1].T, a[0].T @ g)),
    "rms": make(_rms, _rms_backward),
    "layer_norm": jax.jit(_layer_norm),
    "log_softmax": jax.checkpoint(_log_softmax),
    "cumsum": make(
        lambda x: jax.lax.associative_scan(jnp.add, x, axis=1), lambda a, g: jnp.cumsum(g[:, ::-1], 1)[:, ::-1]
    ),
    "max": make(lambda x: jnp.sort(x, 1)[:, -1], lambda a, g: g[:, None] * (a[0] == a[0].max(1, keepdims=True))),
    "scan": lambda x: sum(x[i] * 0.5 ** (5 - i) for i in range(6)),
    "pair": lambda x, y: {"sum": y + x, "product": y * x},
}
PLANTED = {
    "square: factor": ("square", make(lambda x: x * x, lambda a, g: g * a[0])),
    "square: sign": ("square", make(lambda x: x * x, lambda a, g: -2 * g * a[0])),
    "square: forward": ("square", make(lambda x: x * x * 1.001, lambda a, g: g * 2 * a[0])),
    "sigmoid: term": ("sigmoid", make(_sigmoid, lambda a, g: g * _sigmoid(a[0]))),
    "tanh: saved the result": ("tanh", make(jnp.tanh, lambda a, g: g * (1 - jnp.tanh(jnp.tanh(a[0])) ** 2))),
    "silu: term": ("silu", make(lambda x: x * _sigmoid(x), lambda a, g: g * _sigmoid(a[0]))),
    "gelu: another formula": ("gelu", lambda x: jax.nn.gelu(x, approximate=False)),
    "relu: leaks": ("relu", make(lambda x: jnp.maximum(x, 0), lambda a, g: jnp.where(a[0] > 0, g, 0.01 * g))),
    "exp: no cotangent": ("exp", make(jnp.exp, lambda a, g: jnp.exp(a[0]))),
    "softplus: scale": ("softplus", make(jax.nn.softplus, lambda a, g: g * _sigmoid(2 * a[0]))),
    "mul: swapped": ("mul", make(lambda x, y: x * y, lambda a, g: (g * a[0], g * a[1]))),
    "sum: mean": ("sum", make(lambda x: x.sum(1), lambda a, g: jnp.broadcast_to(g[:, None] / 5, a[0].shape))),
    "mean: stopped": ("mean", lambda x: jax.lax.stop_gradient(x).mean(1)),
    "softmax: not centred": ("softmax", make(jax.nn.softmax, lambda a, g: _softmax_backward(a, g, centred=False))),
    "matmul: flipped": ("matmul", make(lambda a, b: a @ b, lambda a, g: (g @ a[1].T, (a[0].T @ g)[::-1]))),
    "matmul: bfloat16": ("matmul", lambda a, b: (a.astype(jnp.bfloat16) @ b.astype(jnp.bfloat16)).astype(a.dtype)),
    "rms: no mean": ("rms", make(_rms, lambda a, g: _rms_backward(a, g, mean=False))),
    "rms: scale": ("rms", make(_rms, lambda a, g: _rms_backward(a, g, scale=1.01))),
    "layer_norm: n - 1": (
        "layer_norm",
        lambda x: (x - x.mean(-1, keepdims=True)) * jax.lax.rsqrt(x.var(-1, ddof=1, keepdims=True) + 1e-5),
    ),
    "cumsum: not reversed": ("cumsum", make(lambda x: jnp.cumsum(x, 1), lambda a, g: jnp.cumsum(g, 1))),
    "scan: one step less": ("scan", lambda x: REFERENCES["scan"](x[1:])),
    "pair: one output": ("pair", lambda x, y: {"sum": x + y, "product": x * jax.lax.stop_gradient(y)}),
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
    inputs = [one.astype(dtype) for one in INPUTS[name]]
    assert check_backward(REFERENCES[name], inputs, REFERENCES[name]).passed


@pytest.mark.parametrize("name", ["square", "softmax", "matmul", "layer_norm", "relu", "pair"])
def test_finite_differences(name):
    assert check_backward(REFERENCES[name], INPUTS[name]).passed
    wrong = next(op for reference, op in PLANTED.values() if reference == name)
    if name not in ("layer_norm",):  # that one is wrong in the forward pass alone
        assert check_backward(wrong, INPUTS[name]).failures


def test_messages_and_records():
    check = check_backward(PLANTED["square: factor"][1], {"x": X}, lambda x: x * x)
    (failure,) = check.failures
    assert failure.tensor == "grad of x"
    assert failure.message.startswith("grad of x[")
    assert failure.expected == pytest.approx(2 * failure.actual)
    assert check_backward(lambda x: x * x + 1e-4, [X], lambda x: x * x, atol=1e-3).passed
    assert not check_backward(lambda x: x * x + 1e-4, [X], lambda x: x * x).passed


def test_what_was_not_checked_is_not_passed():
    with pytest.raises(GradientNotCheckedError, match="no input"):
        check_backward(lambda x: x + 1, [jnp.arange(3)])
    with pytest.raises(GradientNotCheckedError, match="no result has a gradient"):
        check_backward(lambda x: x.argmax(1), [X], lambda x: x.argmax(1))
    with pytest.raises(GradientNotCheckedError, match="computes in less than fp64"):
        check_backward(lambda x: (x * x).astype(jnp.float32), [X])
    with pytest.raises(GradientNotCheckedError, match="cannot be differentiated in fp64"):
        check_backward(lambda x: x * x, [X], lambda x: x.reshape(3))
    failed = check_backward(lambda x: x @ x, [X], lambda x: x * x)
    assert failed.failures[0].kind == "ExecutionError"
    assert not failed


def test_other_arguments_and_numpy_inputs():
    def scaled(x, power, axis):
        return (x**power).sum(axis)

    assert check_backward(scaled, {"x": np.asarray(X), "power": 3, "axis": 1}, scaled).passed
    assert jnp.asarray(1.0).dtype == jnp.float32  # fp64 ends with the check

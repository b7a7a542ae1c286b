"""JAX functions against NumPy references of gpuemu.toml, with gradients, and under JAX's transformations."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from support.op_project import gelu_client

from gpuemu.frameworks.jax import (
    ValidationError,
    check_grad_safe,
    check_jit_safe,
    check_pmap_compatible,
    check_vmap_compatible,
    fuzz_jax_op,
    validate_jax,
    validate_jax_primitive,
)


@pytest.fixture
def client(tmp_path):
    return gelu_client(tmp_path)


def gelu(x):
    return jax.nn.gelu(x, approximate=True)


@jax.custom_vjp
def wrong_gradient(x):
    return gelu(x)


wrong_gradient.defvjp(lambda x: (gelu(x), x), lambda x, g: (g * jax.nn.sigmoid(1.702 * x),))
X = jnp.asarray(np.random.default_rng(0).standard_normal((6, 7)), jnp.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_forward(client, dtype):
    x = X.astype(dtype)
    with validate_jax(client, "gelu", {"x": x}) as context:
        context["output"] = gelu(x)
    assert context["result"].passed
    with pytest.raises(ValidationError), validate_jax(client, "gelu", {"x": x}) as context:
        context["output"] = gelu(x) * (1.5 if dtype == "bfloat16" else 1.1)
    with pytest.raises(ValueError, match="nothing was validated"), validate_jax(client, "gelu", {"x": x}):
        pass


def test_tolerances_do_not_reach_the_reference(client):
    with validate_jax(client, "gelu", {"x": X}, atol=0.5, rtol=0.5) as context:
        context["output"] = gelu(X) + 0.1


def test_backward(client):
    with validate_jax(client, "gelu", {"x": X}, check_backward=True) as context:
        context["output"], context["vjp"] = jax.vjp(gelu, X)
    assert context["gradients"]["x"].passed
    with (
        pytest.raises(ValidationError, match="gelu_grad_x"),
        validate_jax(client, "gelu", {"x": X}, check_backward=True) as context,
    ):
        context["output"], context["vjp"] = jax.vjp(wrong_gradient, X)
    with (
        pytest.raises(ValueError, match="not validated"),
        validate_jax(client, "gelu", {"x": X}, check_backward=True) as context,
    ):
        context["output"] = gelu(X)


def test_fuzzing(client):
    options = {"iterations": 3, "seed": 1, "dtypes": ["float32"]}
    right = fuzz_jax_op(
        client, "gelu", lambda i: gelu(i["x"]), **options, check_backward=True, check_jit=True, check_vmap=True
    )
    assert (right.total, right.failed) == (3, 0)
    assert fuzz_jax_op(client, "gelu", lambda i: wrong_gradient(i["x"]), **options).failed == 0
    assert fuzz_jax_op(client, "gelu", lambda i: wrong_gradient(i["x"]), **options, check_backward=True).failed == 3
    assert fuzz_jax_op(client, "gelu", lambda i: gelu(i["x"]) * 1.01, **options).failed == 3
    assert fuzz_jax_op(client, "gelu", _stateful(), **options, check_jit=True).failed == 3


def _stateful():
    calls = []

    def run(inputs):
        calls.append(1)
        return gelu(inputs["x"]) + (len(calls) % 2) * 0

    def traced_differently(inputs):
        return run(inputs) if not isinstance(inputs["x"], jax.core.Tracer) else run(inputs) * 2

    return traced_differently


def test_transformations():
    assert check_jit_safe(gelu, [X])
    assert not check_jit_safe(lambda x: x if float(x.sum()) > 0 else -x, [X])
    assert check_vmap_compatible(lambda x: x / x.sum(), {"x": X})
    assert not check_vmap_compatible(lambda x: x / x.sum() if x.ndim == 1 and x.sum() > 0 else x, {"x": X})
    assert check_vmap_compatible(lambda x: x.sum(), [X], batch_axis=1)
    assert check_grad_safe(jnp.sqrt, [jnp.abs(X)])
    assert not check_grad_safe(jnp.sqrt, [jnp.zeros(3)])
    assert check_pmap_compatible(lambda x: x * 2, [X[: jax.local_device_count()]])
    with pytest.raises(ValueError, match="devices"):
        check_pmap_compatible(lambda x: x * 2, [jnp.zeros((jax.local_device_count() + 1, 2))])


def test_primitives():
    found = validate_jax_primitive("gelu", gelu, {"x": X}, gelu(X))
    assert (found["forward_ok"], found["jvp_ok"], found["vmap_ok"], found["details"]) == (True, True, True, [])
    assert not validate_jax_primitive("gelu", gelu, {"x": X}, gelu(X) * 1.01)["forward_ok"]

    @jax.custom_jvp
    def square(x):
        return x * x

    square.defjvp(lambda primals, tangents: (square(*primals), primals[0] * tangents[0]))
    wrong = validate_jax_primitive("square", square, {"x": X}, X * X)
    assert (wrong["forward_ok"], wrong["jvp_ok"], wrong["details"]) == (True, False, ["jvp_ok is False"])

"""TensorFlow functions against NumPy references of gpuemu.toml, with gradients, as graphs and under XLA."""

from __future__ import annotations

import numpy as np
import pytest
import tensorflow as tf
from support.op_project import gelu_client

from gpuemu.frameworks.tensorflow import (
    ValidationError,
    check_keras_layer,
    check_tf_function_safe,
    check_xla_compatible,
    fuzz_tensorflow_op,
    validate_custom_gradient,
    validate_tensorflow,
)


@pytest.fixture
def client(tmp_path):
    return gelu_client(tmp_path)


def gelu(x):
    return tf.nn.gelu(x, approximate=True)


@tf.custom_gradient
def wrong_gradient(x):
    return gelu(x), lambda g: g * tf.sigmoid(1.702 * x)


X = tf.constant(np.random.default_rng(0).standard_normal((6, 7)), tf.float32)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_forward(client, dtype):
    x = tf.cast(X, dtype)
    with validate_tensorflow(client, "gelu", {"x": x}) as context:
        context["output"] = gelu(x)
    assert context["result"].passed
    with pytest.raises(ValidationError), validate_tensorflow(client, "gelu", {"x": x}) as context:
        context["output"] = gelu(x) * (1.5 if dtype == "bfloat16" else 1.1)
    with (
        pytest.raises(ValueError, match="nothing was validated"),
        validate_tensorflow(client, "gelu", {"x": tf.Variable(x)}),
    ):
        pass


def test_tolerances_do_not_reach_the_reference(client):
    with validate_tensorflow(client, "gelu", {"x": X}, atol=0.5, rtol=0.5) as context:
        context["output"] = gelu(X) + 0.1


@pytest.mark.parametrize("kind", [tf.identity, tf.Variable])
def test_backward(client, kind):
    x = kind(X)
    with validate_tensorflow(client, "gelu", {"x": x}, check_gradient=True) as context, context["tape"]:
        context["output"] = gelu(x)
    assert context["gradients"]["x"].passed
    with (
        pytest.raises(ValidationError, match="gelu_grad_x"),
        validate_tensorflow(client, "gelu", {"x": x}, check_gradient=True) as context,
        context["tape"],
    ):
        context["output"] = wrong_gradient(x)
    with (
        pytest.raises(ValueError, match="not validated"),
        validate_tensorflow(client, "gelu", {"x": x}, check_gradient=True) as context,
    ):
        context["output"] = gelu(x)


def test_fuzzing(client):
    options = {"iterations": 3, "seed": 1, "dtypes": ["float32"]}
    right = fuzz_tensorflow_op(client, "gelu", gelu, **options, check_gradient=True, check_xla=True)
    assert (right.total, right.failed) == (3, 0)
    assert fuzz_tensorflow_op(client, "gelu", lambda inputs: wrong_gradient(inputs["x"]), **options).failed == 0
    assert fuzz_tensorflow_op(client, "gelu", wrong_gradient, **options, check_gradient=True).failed == 3
    assert fuzz_tensorflow_op(client, "gelu", lambda x: gelu(x) * 1.01, **options).failed == 3
    traced = fuzz_tensorflow_op(client, "gelu", lambda x: gelu(x + _traced()), **options, check_xla=True)
    assert traced.failed == 3


def _traced():
    return 0.0 if tf.executing_eagerly() else 1.0


def test_graphs():
    for check in (check_tf_function_safe, check_xla_compatible):
        assert check(gelu, {"x": X})
        assert check(gelu, [tf.cast(X, tf.bfloat16)])
        assert not check(lambda x: x + _traced(), [X])
        assert not check(lambda x: tf.constant(np.sort(x.numpy())), [X])
        with pytest.raises(ZeroDivisionError):  # an error of the function is not one of the graph
            check(lambda x: x / (1 // 0), [X])
    assert not check_xla_compatible(lambda x: tf.strings.length(tf.strings.as_string(x)), [X])


def test_layers(client):
    class Gelu(tf.keras.layers.Layer):
        def __init__(self, function):
            super().__init__()
            self.function = function

        def call(self, x):
            return self.function(x)

    assert check_keras_layer(Gelu(gelu), (3, 8), client, "gelu")
    assert not check_keras_layer(Gelu(wrong_gradient), (3, 8), client, "gelu")
    assert not check_keras_layer(Gelu(lambda x: gelu(x) + 1e-3), (3, 8), client, "gelu")


def test_custom_gradients():
    @tf.custom_gradient
    def double(x):
        return x * 2, lambda g: g * 2

    assert validate_custom_gradient(double, None, {"x": X}) == {"gradient_ok": True, "details": [], "max_diff": 0.0}
    found = validate_custom_gradient(wrong_gradient, lambda x, dy: dy, [X])
    assert not found["gradient_ok"]
    assert found["max_diff"] > 1e-3
    assert "by finite differences" in found["details"][0]

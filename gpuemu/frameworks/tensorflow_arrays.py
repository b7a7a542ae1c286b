"""TensorFlow as a framework of the gradient checks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import numpy as np
import tensorflow as tf

from gpuemu.frameworks.differentiation import Pullback
from gpuemu.verifier.values import Array

_NARROW = {"float16": "f16", "bfloat16": "bf16", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"}


class TensorflowFramework:
    """Tensors of TensorFlow, and ``tf.GradientTape``."""

    def tensor(self, value: Any) -> Any:
        """Return an array of NumPy or a variable as a tensor, any other value as it is."""
        return tf.convert_to_tensor(value) if isinstance(value, np.ndarray | np.generic | tf.Variable) else value

    def is_differentiable(self, value: Any) -> bool:
        """Return whether a value is a tensor of real floating-point numbers."""
        return bool(tf.is_tensor(value) and value.dtype.is_floating)

    def in_fp64(self) -> AbstractContextManager[object]:
        """Return a context that does nothing: TensorFlow computes in the dtype of its tensors."""
        return contextlib.nullcontext()

    def differentiated(
        self, function: Callable[[Mapping[str, Any]], Mapping[str, Any]], given: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Pullback]:
        """Return the results of a function by path, and its pullback."""
        watched = {name: tf.identity(one) for name, one in given.items()}
        with tf.GradientTape(persistent=True) as tape:
            tape.watch(list(watched.values()))
            results = dict(function(watched))

        def pullback(cotangents: Mapping[str, Array]) -> dict[str, Any]:
            targets = [results[path] for path in cotangents]
            weights = [tf.cast(one, results[path].dtype) for path, one in cotangents.items()]
            grads = tape.gradient(targets, list(watched.values()), output_gradients=weights)
            # The gradient of a gather is a sparse one.
            return {
                name: None if grad is None else tf.convert_to_tensor(grad)
                for name, grad in zip(watched, grads, strict=True)
            }

        return results, pullback

    def rounded(
        self, function: Callable[[Mapping[str, Any]], tuple[Any, ...]], given: Mapping[str, Array]
    ) -> tuple[Any, ...] | None:
        """Return None: operations of TensorFlow are not perturbed, and the error budget is that of an untraced run."""
        return None

    def precisions(
        self, function: Callable[[Mapping[str, Any]], tuple[Any, ...]], given: Mapping[str, Any]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return the format of matrix products of a GPU, and the narrow dtypes of the inputs."""
        products = bool(tf.config.list_logical_devices("GPU"))
        products = products and bool(tf.config.experimental.tensor_float_32_execution_enabled())
        names = {one.dtype.name for one in given.values()}
        narrow = frozenset(_NARROW[name] for name in names if name in _NARROW)
        return frozenset({"tf32"}) if products else frozenset(), narrow

"""JAX as a framework of the gradient checks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from typing import Any

import jax
import jax.experimental
import jax.numpy as jnp
import numpy as np

from gpuemu.frameworks.differentiation import Pullback
from gpuemu.frameworks.jax_rounding import arithmetic_of, rounded_results
from gpuemu.verifier.values import Array
from gpuemu_lsp.engine.oracle.trace import TracedArray

_PRODUCTS = {"gpu": frozenset({"tf32"}), "tpu": frozenset({"bf16"})}
"""Format of the factors of a matrix product in fp32 at the default precision."""


class JaxFramework:
    """JAX arrays, ``jax.vjp``, and fp64 for the time of a context."""

    def tensor(self, value: Any) -> Any:
        """Return an array of NumPy as one of JAX, any other value as it is."""
        return jnp.asarray(value) if isinstance(value, np.ndarray | np.generic) else value

    def is_differentiable(self, value: Any) -> bool:
        """Return whether a value is an array of real floating-point numbers."""
        return isinstance(value, jax.Array) and bool(jnp.issubdtype(value.dtype, jnp.floating))

    def in_fp64(self) -> AbstractContextManager[object]:
        """Let JAX compute in fp64."""
        # A function of jax.experimental before JAX 0.8.
        enable = jax.enable_x64 if callable(getattr(jax, "enable_x64", None)) else jax.experimental.enable_x64
        context: AbstractContextManager[object] = enable(True)
        return context

    def differentiated(
        self, function: Callable[[Mapping[str, Any]], Mapping[str, Any]], given: Mapping[str, Any]
    ) -> tuple[Mapping[str, Any], Pullback]:
        """Return the results of a function by path, and its pullback."""
        results, pull = jax.vjp(lambda values: dict(function(values)), dict(given))

        def pullback(cotangents: Mapping[str, Array]) -> dict[str, Any]:
            full = {path: _cotangent(one, cotangents.get(path)) for path, one in results.items()}
            (grads,) = pull(full)
            return dict(grads)

        return results, pullback

    def rounded(
        self, function: Callable[[Mapping[str, Any]], tuple[Any, ...]], given: Mapping[str, Array]
    ) -> tuple[Any, ...] | None:
        """Return the results with rounding errors in every operation; None for inputs that are not traced."""
        traced = [one for one in given.values() if isinstance(one, TracedArray) and one.arithmetic is not None]
        if not traced:
            return None
        arithmetic = traced[0].arithmetic
        assert arithmetic is not None
        return rounded_results(function, {name: np.asarray(one) for name, one in given.items()}, arithmetic)

    def precisions(
        self, function: Callable[[Mapping[str, Any]], tuple[Any, ...]], given: Mapping[str, Any]
    ) -> tuple[frozenset[str], frozenset[str]]:
        """Return the formats of matrix products of the device, and the narrow dtypes of the function's operations."""
        narrow, products = arithmetic_of(function, given)
        return (frozenset() if not products else _PRODUCTS.get(jax.default_backend(), frozenset())), narrow


def _cotangent(result: Any, cotangent: Array | None) -> Any:
    """Return a cotangent in the dtype of a result; that of integers has no values."""
    if jnp.issubdtype(result.dtype, jnp.inexact):
        return jnp.zeros_like(result) if cotangent is None else jnp.asarray(cotangent).astype(result.dtype)
    return np.zeros(result.shape, jax.dtypes.float0)

"""Gradients of an op of gpuemu.toml, compared with finite differences of its NumPy reference."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from gpuemu.client import Client
from gpuemu.results import ValidationResult
from gpuemu.verifier.values import Array

_ATOL, _RTOL = 1e-5, 1e-3


def compared_gradients(
    client: Client,
    op: str,
    inputs: Mapping[str, Array],
    grads: Mapping[str, Array | None],
    cotangent: Array,
    tolerance: tuple[float | None, float | None],
    kwargs: Mapping[str, Any],
) -> dict[str, ValidationResult]:
    """Return a result for the gradient of each input.

    Parameters
    ----------
    inputs : Mapping
        All inputs of the op.
    grads : Mapping
        Vector-Jacobian products by input; None is zero.
    cotangent : ndarray
        That of the first output, of its shape.
    tolerance : tuple
        ``atol`` and ``rtol``, in addition to the error of the differences; 1e-5 and 1e-3 where they are None.
    kwargs : Mapping
        Passed to the reference as text.
    """
    atol = _ATOL if tolerance[0] is None else tolerance[0]
    rtol = _RTOL if tolerance[1] is None else tolerance[1]
    found = client.runner(op).wrong_gradients(inputs, grads, cotangent, (atol, rtol), kwargs)
    results = {}
    for name in grads:
        message = found[name]
        failures = () if message is None else ({"kind": "ToleranceExceeded", "message": message},)
        results[name] = ValidationResult(message is None, 0, f"{op}_grad_{name}", failures=failures)
    return results


def cotangent_of(shape: tuple[int, ...], seed: int) -> Array:
    """Return a random cotangent in eighths, which every format has exactly: a reference gets the same values."""
    return np.random.default_rng(seed).integers(-16, 17, shape) / 8

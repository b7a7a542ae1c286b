"""Launches of the language tests: NumPy arrays as arguments, and no finding."""

from __future__ import annotations

import ml_dtypes
import numpy as np

from gpuemu.triton import emulated

INTEGERS = ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"]
FLOATS = ["float16", "bfloat16", "float32", "float64"]
NUMPY = {
    **{name: np.dtype(name) for name in [*INTEGERS, "float16", "float32", "float64"]},
    "bfloat16": np.dtype(ml_dtypes.bfloat16),
    "float8e5": np.dtype(ml_dtypes.float8_e5m2),
    "float8e4nv": np.dtype(ml_dtypes.float8_e4m3fn),
}


def run(kernel, grid, *arguments, arch="sm_80", **options):
    """Launch a kernel, require that it completes without a finding, and return the compiled kernel."""
    with emulated(arch) as session:
        compiled = kernel[grid if isinstance(grid, tuple) else (grid,)](*arguments, **options)
    assert [record.status for record in session.launches] == ["completed"]
    assert not session.findings
    return compiled


def values(dtype, shape, seed=0, low=None, high=None):
    """Return random values: integers of all sizes that the type has, or floats of a normal distribution."""
    rng = np.random.default_rng(seed)
    kind = NUMPY[dtype]
    if dtype in INTEGERS:
        limits = np.iinfo(kind)
        low, high = limits.min if low is None else low, limits.max if high is None else high
        return rng.integers(low, high, shape, kind, endpoint=True)
    return rng.standard_normal(shape).astype(kind)


def assert_close(found, expected, ulps, near_zero=0.0):
    """Require that floats differ from fp64 values by at most ``ulps`` units in the last place of their type."""
    found_values, expected = found.astype(np.float64), np.asarray(expected, np.float64)
    info = ml_dtypes.finfo(found.dtype)
    unit = np.maximum(np.abs(expected), float(info.tiny)) * float(info.eps)
    same = (found_values == expected.astype(found.dtype).astype(np.float64)) | (
        np.isnan(found_values) & np.isnan(expected)
    )
    with np.errstate(invalid="ignore"):
        wrong = ~same & ~(np.abs(found_values - expected) <= ulps * unit + near_zero)
    assert not wrong.any(), (found_values[wrong][:5], expected[wrong][:5])

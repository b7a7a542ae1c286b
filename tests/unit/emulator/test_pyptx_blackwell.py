"""The kernels that pyptx 0.1.1 ships for sm_100a, under all checkers."""

from __future__ import annotations

import importlib.util

import ml_dtypes
import numpy as np
import pytest
from support.pyptx_kernels import run, traced

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pyptx") is None, reason="pyptx is not installed")

BF16 = np.dtype(ml_dtypes.bfloat16)
LIMITS = {"max_seconds": 300.0, "translate_seconds": 300.0}


def test_product():
    m, n, k = 128, 256, 64
    kernel = traced("blackwell.gemm_highperf_blackwell", "build_gemm", m, n, k)
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, shape).astype(BF16) for shape in ((m, k), (n, k)))
    outcome = run(kernel, {"A": a, "B_T": b, "D": np.zeros((m, n), np.float32)}, ("D",), **LIMITS)
    assert outcome.status == "completed" and not outcome.events, outcome.events
    found = outcome.buffers["D"].view(np.float32).reshape(m, n)
    assert np.array_equal(found, a.astype(np.float64) @ b.astype(np.float64).T)

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


def _product(name, m, n, k, module="gemm_highperf_blackwell"):
    """Multiply small integers; return the outcome and whether the result is that of NumPy, bit for bit."""
    kernel = traced(f"blackwell.{module}", name, m, n, k)
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, shape).astype(BF16) for shape in ((m, k), (n, k)))
    outcome = run(kernel, {"A": a, "B_T": b, "D": np.zeros((m, n), np.float32)}, ("D",), **LIMITS)
    found = outcome.buffers["D"].view(np.float32).reshape(m, n)
    return outcome, np.array_equal(found, a.astype(np.float64) @ b.astype(np.float64).T)


def test_a_persistent_product():
    outcome, right = _product("_build_gemm_persistent_overlap_experimental", 128, 256, 128)
    assert outcome.status == "completed" and not outcome.events and right, outcome.events


@pytest.mark.parametrize(("name", "m", "k"), [("build_gemm", 128, 128), ("build_gemm_2sm", 256, 64)])
def test_a_product_frees_what_other_warps_still_load(name, m, k):
    # Warp 0 frees the tensor memory without a barrier behind the loads of the others, which the persistent ones have.
    outcome, right = _product(name, m, 256, k)
    assert outcome.status == "completed" and right
    assert {event.rule for event in outcome.events} == {"memory/use-after-free"}, outcome.events


def test_a_tile_is_overwritten_while_a_product_reads_it():
    # From the fifth step on, tiles are used again: the producer waits for a plain arrival behind the product's issue,
    # not for a commit.
    outcome, right = _product("build_gemm", 128, 256, 320)
    assert right and "sync/async-order" in {event.rule for event in outcome.events}
    assert any(
        "this copy overwrites operand A, which `tcgen05` may still read" in one.message for one in outcome.events
    )


def test_a_persistent_product_whose_other_warps_have_no_lanes():
    # Its blocks have eight warps, and the epilogue is that of all of them.
    outcome, _ = _product("build_gemm_persistent", 128, 256, 64)
    assert "memory/out-of-bounds" in {event.rule for event in outcome.events}


def test_a_wait_for_the_wrong_phase():
    # It initialises its barrier again for each step of k, and waits for a phase that is over at once.
    outcome, right = _product("build_gemm_no_tma_debug", 128, 256, 64, "gemm_experimental_blackwell")
    assert right and {event.rule for event in outcome.events} >= {"sync/async-order", "sync/mbarrier"}

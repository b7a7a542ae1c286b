"""The 18 kernels that pyptx 0.1.1 ships for sm_100a, under all checkers: right, or with a true finding."""

from __future__ import annotations

import importlib.util

import ml_dtypes
import numpy as np
import pytest
from support.pyptx_kernels import run, traced

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pyptx") is None, reason="pyptx is not installed")

BF16 = np.dtype(ml_dtypes.bfloat16)
FREED = {"memory/use-after-free", "sync/async-order"}
"""Some warps load before, and some behind, what frees their cells."""
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
    assert {event.rule for event in outcome.events} == FREED, outcome.events


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


@pytest.mark.parametrize("name", ["rms_norm", "layer_norm", "fused_silu_mul"])
def test_row_kernels(name):
    module = "swiglu" if name == "fused_silu_mul" else name
    kernel = traced(f"blackwell.{module}", f"build_{name}", 16, 1024)
    random = np.random.default_rng(2)
    *inputs, output = kernel.tensors
    shapes = [(16, 1024), *([(16, 1024)] if name == "fused_silu_mul" else [(1024,)] * 2)]
    x, *others = (random.standard_normal(shape, dtype=np.float32) for shape in shapes)
    wide = x.astype(np.float64)
    if name == "rms_norm":
        wanted = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * others[0]
    elif name == "layer_norm":
        centred = wide - wide.mean(-1, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * others[0] + others[1]
    else:
        wanted = wide / (1 + np.exp(-wide)) * others[0]
    tensors = dict(zip(inputs, (x, *others), strict=False))
    outcome = run(kernel, {**tensors, output: np.zeros_like(x)}, (output,), **LIMITS)
    assert outcome.status == "completed" and not outcome.events, outcome.events
    assert np.allclose(outcome.buffers[output].view(np.float32).reshape(x.shape), wanted, atol=1e-4, rtol=1e-3)


def test_a_grouped_product_frees_what_other_warps_still_load():
    groups, m, n, k = 2, 128, 64, 64
    kernel = traced("blackwell.grouped_gemm", "build_grouped_gemm", groups, m, n, k)
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 5, (groups, rows, k)).astype(BF16) for rows in (m, n))
    wanted = a.astype(np.float64) @ b.astype(np.float64).transpose(0, 2, 1)
    tensors = {"A": a.reshape(-1, k), "B_T": b.reshape(-1, k), "C": np.zeros((groups * m, n), np.float32)}
    outcome = run(kernel, tensors, ("C",), **LIMITS)
    assert outcome.status == "completed" and {event.rule for event in outcome.events} == FREED
    assert np.array_equal(outcome.buffers["C"].view(np.float32), wanted.reshape(-1))


_PROBES = {
    # What these write, and what is wrong with them: of the probes of products each waits for a phase that is over
    # before the first begins, so that nothing waits for the product.
    "alloc": ("tcgen05_smoke", "build_alloc_only", 11, ()),
    "mma": ("tcgen05_smoke", "build_mma_only", 22, ("adds to column 0, which nothing has written",)),
    "ld": ("tcgen05_smoke", "build_ld_only", 33, ("loads column 0, which nothing has written", "may access lanes 32")),
    "round trip": ("tcgen05_roundtrip", "build", np.tile(np.arange(1.0, 65), (32, 1)), ()),
    "one product": ("tcgen05_mma_probe", "build", 16, ("nothing has waited for the mbarrier at byte 12288",)),
    # Each row of a tile is 32 bytes, and the second step begins 32 bytes behind the first: in the next row.
    "steps": ("tcgen05_accum_probe", "build", None, ("operand B reaches from byte 4160 to byte 12351",)),
}


@pytest.mark.parametrize("name", _PROBES)
def test_probes(name):
    module, build, wanted, messages = _PROBES[name]
    kernel = traced(f"blackwell.{module}", build)
    shape = np.shape(wanted) if np.ndim(wanted) else (1, 1) if module == "tcgen05_smoke" else (32, 64)
    tensors = {"_x": np.zeros((1, 1), np.float32), "O": np.zeros(shape, np.float32)}
    outcome = run(kernel, tensors, ("O",), **LIMITS)
    assert bool(outcome.events) == bool(messages), outcome.events
    for message in messages:
        assert any(message in event.message for event in outcome.events), outcome.events
    assert wanted is None or (outcome.buffers["O"].view(np.float32).reshape(shape) == wanted).all()


@pytest.mark.parametrize("name", ["tcgen05_ld_phase_probe", "tcgen05_ld_register_probe"])
def test_probes_of_loads(name):
    # Both initialise a barrier that is in use, and wait for a phase that is over.
    keywords = (("use_shift", False),) if "phase" in name else ()
    kernel = traced(f"blackwell.{name}", "build", keywords=keywords)
    first, second, output = kernel.tensors
    random = np.random.default_rng(5)
    a, b = (random.integers(-4, 5, (rows, 64)).astype(BF16) for rows in (128, 256))
    columns = 256 if "phase" in name else 64
    outcome = run(kernel, {first: a, second: b, output: np.zeros((128, columns), np.float32)}, (output,), **LIMITS)
    assert {event.rule for event in outcome.events} >= {"sync/async-order", "sync/mbarrier"}, outcome.events
    if "phase" in name:
        wanted = a.astype(np.float64) @ b.astype(np.float64).T
        assert np.array_equal(outcome.buffers[output].view(np.float32), wanted.reshape(-1))

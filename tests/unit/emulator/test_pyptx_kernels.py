"""The kernels that pyptx 0.1.1 ships for sm_80 and sm_90a: right, and without findings, under all checkers."""

from __future__ import annotations

import importlib.util
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from support.pyptx_kernels import run, traced

pytestmark = pytest.mark.skipif(importlib.util.find_spec("pyptx") is None, reason="pyptx is not installed")

BF16 = np.dtype(ml_dtypes.bfloat16)
LIMITS = {"max_seconds": 300.0, "translate_seconds": 300.0}


def _wide(array):
    return array.astype(np.float64)


def _softmax(x):
    shifted = np.exp(x - x.max(axis=-1, keepdims=True))
    return shifted / shifted.sum(axis=-1, keepdims=True)


def _checked(kernel, tensors, output, dtype, shape, wanted, atol, rtol):
    """Run a kernel; compare with its fp64 reference in pyptx's own tolerances."""
    outcome = run(kernel, {**tensors, output: np.zeros(shape, dtype)}, (output,), **LIMITS)
    assert outcome.status == "completed" and not outcome.events, outcome.events
    assert outcome.written is not None and outcome.written[output].all()
    found = _wide(outcome.buffers[output].view(dtype).reshape(shape))
    assert np.allclose(found, wanted, atol=atol, rtol=rtol), np.abs(found - wanted).max()
    return found


@pytest.mark.parametrize(
    ("module", "build", "sizes"),
    [
        ("ampere.gemm", "build_gemm", (128, 128, 128)),
        ("ampere.gemm_pipelined", "build_gemm_pipelined", (128, 128, 128)),
        ("ampere.gemm_highperf_ampere", "build_gemm_highperf", (256, 256, 128)),
    ],
)
def test_ampere_products(module, build, sizes):
    m, n, k = sizes
    kernel = traced(module, build, *sizes)
    first, second, output = kernel.tensors
    # Small integers, where the order of sums does not matter: bit for bit.
    random = np.random.default_rng(1)
    a, b = (random.integers(-4, 5, shape).astype(BF16) for shape in ((m, k), (n, k)))
    found = _checked(kernel, {first: a, second: b}, output, np.float32, (m, n), _wide(a) @ _wide(b).T, 1e-2, 1e-2)
    assert np.array_equal(found, _wide(a) @ _wide(b).T)


@pytest.mark.parametrize("family", ["ampere", "hopper"])
@pytest.mark.parametrize("name", ["softmax", "rms_norm", "layer_norm", "swiglu"])
def test_row_kernels(family, name):
    rows, columns = 64, 1024
    build = "build_fused_silu_mul" if name == "swiglu" else f"build_{name}"
    kernel = traced(f"{family}.{name}", build, rows, columns)
    random = np.random.default_rng(2)
    *inputs, output = kernel.tensors
    x, *others = (
        random.standard_normal(shape, dtype=np.float32)
        for shape in ((rows, columns), *([(rows, columns)] if name == "swiglu" else [columns] * 2))
    )
    wide = _wide(x)
    if name == "softmax":
        wanted = _softmax(wide)
    elif name == "rms_norm":
        wanted = wide / np.sqrt((wide**2).mean(-1, keepdims=True) + 1e-6) * others[0]
    elif name == "layer_norm":
        centred = wide - wide.mean(-1, keepdims=True)
        wanted = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5) * others[0] + others[1]
    else:
        wanted = wide / (1 + np.exp(-wide)) * others[0]
    tensors = dict(zip(inputs, (x, *others), strict=False))
    _checked(kernel, tensors, output, np.float32, x.shape, wanted, 1e-4, 1e-3)


def test_grouped_product():
    groups, m, n, k = 2, 128, 128, 128
    kernel = traced("hopper.grouped_gemm", "build_grouped_gemm", groups, m, n, k)
    random = np.random.default_rng(3)
    a, b = (random.integers(-4, 5, shape).astype(BF16) for shape in ((groups, m, k), (groups, k, n)))
    wanted = (_wide(a) @ _wide(b)).reshape(groups * m, n)
    tensors = {"A": a.reshape(-1, k), "B": b.reshape(-1, n)}
    found = _checked(kernel, tensors, "C", np.float32, wanted.shape, wanted, 1e-4, 1e-3)
    assert np.array_equal(found, wanted)


def _attention(kernel, queries, keys, width):
    random = np.random.default_rng(4)
    q, k, v = ((random.standard_normal((rows, width)) * 0.3).astype(BF16) for rows in (queries, keys, keys))
    wanted = _softmax(_wide(q) @ _wide(k).T / np.sqrt(width)) @ _wide(v)
    output = next(name for name in kernel.tensors if name not in ("Q", "K_t", "V"))
    tensors = {"Q": q, "K_t": np.ascontiguousarray(k.T), "V": v}
    return _checked(kernel, tensors, output, np.float32, (queries, width), wanted, 2e-2, 1e-2)


@pytest.mark.parametrize(
    ("name", "build", "arguments", "sizes"),
    [
        ("flash_attention_parallel", "build_flash_attention_parallel", (128, 128), (128, 128, 16)),
        ("flash_attention_wgmma_kloop", "build_flash_attention_kloop", (128,), (64, 128, 16)),
        ("flash_attention_hopper", "build_flash_attention_hopper", (128, 128, 32), (128, 128, 32)),
    ],
)
def test_attention(name, build, arguments, sizes):
    # All three store P, and multiply it after a barrier but without the fence between the proxies that the manual asks
    # for: an error by the manual that a GPU does not show, reported on request.
    _attention(traced(f"hopper.experimental.{name}", build, *arguments), *sizes)


def test_a_tile_that_nothing_has_written():
    # pyptx's own bug: with more than 48 KB of shared memory it places P at the beginning of dynamic shared memory, over
    # Q, and wgmma reads the tile of P, at byte 49,152, that nothing writes.
    kernel = traced("hopper.experimental.flash_attention_hopper", "build_flash_attention_hopper", 128, 128, 64)
    random = np.random.default_rng(5)
    q, k, v = ((random.standard_normal((128, 64)) * 0.3).astype(BF16) for _ in range(3))
    output = next(name for name in kernel.tensors if name not in ("Q", "K_t", "V"))
    tensors = {"Q": q, "K_t": np.ascontiguousarray(k.T), "V": v, output: np.zeros((128, 64), np.float32)}
    outcome = run(kernel, tensors, (output,), **LIMITS)
    found = [event.message for event in outcome.events]
    assert {event.rule for event in outcome.events} == {"memory/uninitialized-read"}
    assert "of the 2048 bytes of operand A in shared memory, from byte 49152 of `dyn_smem` on: nothing has" in found[0]


def test_a_cluster_of_two_blocks():
    # Its schedule has one tile of 256 x 256 for the first cluster. It stores C without a fence between the proxies, as
    # the attention kernels store P, and its blocks exit before the last arrivals at their barriers.
    m, n, k = 256, 256, 128
    keywords = (("K", k), ("M", m), ("N", n))
    kernel = traced("hopper.gemm_highperf_hopper", "gemm_warp_specialized", keywords=keywords)
    kernel = replace(kernel, grid=(4, 1, 1))
    random = np.random.default_rng(6)
    a, b = (random.integers(-4, 5, (rows, k)).astype(BF16) for rows in (m, n))
    schedule = np.full((64, 128), -1, np.int32)
    schedule[0, 0] = 0
    tensors = {"A": a, "B": b, "hilbert_schedule": schedule, "M": m, "N": n, "K": k}
    wanted = _wide((_wide(b) @ _wide(a).T).astype(np.float32).astype(BF16))
    found = _checked(kernel, tensors, "C", BF16, (n, m), wanted, 1e-2, 1e-2)
    assert np.array_equal(found, wanted)

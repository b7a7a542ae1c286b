"""Matrix products: every input type, precision, shape, number of warps and pipeline stages."""

from __future__ import annotations

import numpy as np
import pytest
import triton
import triton.language as tl
from language_support import NUMPY, run, values


@triton.jit
def product(x, y, out, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, PRECISION: tl.constexpr, OUT: tl.constexpr):
    m, n, k = tl.arange(0, M), tl.arange(0, N), tl.arange(0, K)
    a = tl.load(x + m[:, None] * K + k[None, :])
    b = tl.load(y + k[:, None] * N + n[None, :])
    result = tl.dot(a, b, input_precision=PRECISION, out_dtype=OUT)
    tl.store(out + m[:, None] * N + n[None, :], result)


def inputs(dtype, m, n, k):
    if dtype in ("int8", "uint8"):
        return values(dtype, (m, k), 1), values(dtype, (k, n), 2)
    return values(dtype, (m, k), 1), values(dtype, (k, n), 2)


def check(out, a, b, input_unit):
    """Compare with the exact product: each factor rounded to ``input_unit``, sums in fp32."""
    wide_a, wide_b = a.astype(np.float64), b.astype(np.float64)
    bound = (np.abs(wide_a) @ np.abs(wide_b)) * (2.01 * input_unit + 2.0**-21)
    unit = {2: 2.0**-10, 4: 0, 8: 0}[out.itemsize] if out.dtype != NUMPY["bfloat16"] else 2.0**-8
    exact = wide_a @ wide_b
    assert (np.abs(out.astype(np.float64) - exact) <= bound + unit * np.abs(exact)).all()


@pytest.mark.parametrize("num_warps", [1, 2, 4, 8])
@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (32, 64, 16), (64, 32, 64), (128, 16, 32)])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_products_of_short_floats(dtype, m, n, k, num_warps):
    a, b = inputs(dtype, m, n, k)
    out = np.zeros((m, n), np.float32)
    run(product, 1, a, b, out, m, n, k, PRECISION=None, OUT=tl.float32, num_warps=num_warps)
    check(out, a, b, 0)


@pytest.mark.parametrize(("precision", "unit"), [("tf32", 2.0**-10), ("tf32x3", 2.0**-19), ("ieee", 2.0**-24)])
@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (64, 32, 32), (32, 64, 64)])
def test_products_of_fp32(precision, unit, m, n, k):
    a, b = inputs("float32", m, n, k)
    out = np.zeros((m, n), np.float32)
    run(product, 1, a, b, out, m, n, k, PRECISION=precision, OUT=tl.float32)
    check(out, a, b, unit)


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 32), (64, 32, 64)])
def test_products_of_integers_are_exact(m, n, k, num_warps):
    a, b = inputs("int8", m, n, k)
    out = np.zeros((m, n), np.int32)
    run(product, 1, a, b, out, m, n, k, PRECISION=None, OUT=tl.int32, num_warps=num_warps)
    assert np.array_equal(out, a.astype(np.int32) @ b.astype(np.int32))


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (32, 16, 64)])
def test_products_of_fp64(m, n, k):
    a, b = inputs("float64", m, n, k)
    out = np.zeros((m, n))
    run(product, 1, a, b, out, m, n, k, PRECISION=None, OUT=tl.float64)
    assert np.allclose(out, a @ b, rtol=0, atol=1e-12)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 32), (64, 32, 64)])
def test_products_of_floats_of_8_bits(m, n, k):
    a, b = inputs("float8e5", m, n, k)
    out = np.zeros((m, n), np.float32)
    run(product, 1, a, b, out, m, n, k, PRECISION=None, OUT=tl.float32)
    check(out, a, b, 0)


@pytest.mark.parametrize(("m", "n", "k"), [(16, 16, 16), (64, 64, 32)])
def test_products_with_short_sums(m, n, k):
    a, b = (one * np.float16(0.25) for one in inputs("float16", m, n, k))
    out = np.zeros((m, n), np.float16)
    run(product, 1, a, b, out, m, n, k, PRECISION=None, OUT=tl.float16)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert (np.abs(out - exact) <= 2.0**-9 * (np.abs(a.astype(float)) @ np.abs(b.astype(float)))).all()


@triton.jit
def batched(x, y, out, B: tl.constexpr, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr):
    i = tl.arange(0, B)[:, None, None]
    m, n = tl.arange(0, M)[None, :, None], tl.arange(0, N)[None, None, :]
    a = tl.load(x + (i * M + m) * K + tl.arange(0, K)[None, None, :])
    b = tl.load(y + (i * K + tl.arange(0, K)[None, :, None]) * N + n)
    tl.store(out + (i * M + m) * N + n, tl.dot(a, b))


@pytest.mark.parametrize("num_warps", [1, 4])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_batches_of_products(dtype, num_warps):
    a, b = values(dtype, (4, 16, 32), 1), values(dtype, (4, 32, 16), 2)
    out = np.zeros((4, 16, 16), np.float32)
    run(batched, 1, a, b, out, 4, 16, 16, 32, num_warps=num_warps)
    exact = a.astype(np.float64) @ b.astype(np.float64)
    assert np.allclose(out, exact, atol=0.05 if dtype == "float32" else 1e-4)


@triton.jit
def matmul(x, y, out, m, n, k, M: tl.constexpr, N: tl.constexpr, K: tl.constexpr, TRANSPOSED: tl.constexpr):
    rows = tl.program_id(0) * M + tl.arange(0, M)
    columns = tl.program_id(1) * N + tl.arange(0, N)
    total = tl.zeros((M, N), tl.float32)
    for start in range(0, k, K):
        inner = start + tl.arange(0, K)
        a = tl.load(x + rows[:, None] * k + inner[None, :], mask=(rows[:, None] < m) & (inner[None, :] < k), other=0.0)
        inside = (inner[:, None] < k) & (columns[None, :] < n)
        if TRANSPOSED:
            b = tl.load(y + columns[None, :] * k + inner[:, None], mask=inside, other=0.0)
        else:
            b = tl.load(y + inner[:, None] * n + columns[None, :], mask=inside, other=0.0)
        total = tl.dot(a, b, total)
    inside = (rows[:, None] < m) & (columns[None, :] < n)
    tl.store(out + rows[:, None] * n + columns[None, :], total.to(out.dtype.element_ty), mask=inside)


@pytest.mark.parametrize("transposed", [False, True])
@pytest.mark.parametrize("num_stages", [1, 2, 3, 4])
@pytest.mark.parametrize(("m", "n", "k"), [(64, 64, 128), (33, 50, 100), (40, 72, 7)])
@pytest.mark.parametrize("dtype", ["float16", "float32"])
def test_tiled_products(dtype, m, n, k, num_stages, transposed):
    a, b = values(dtype, (m, k), 1), values(dtype, (k, n), 2)
    out = np.zeros((m, n), np.float32)
    given = np.ascontiguousarray(b.T) if transposed else b
    run(matmul, (triton.cdiv(m, 32), triton.cdiv(n, 32)), a, given, out, m, n, k, M=32, N=32, K=32,
        TRANSPOSED=transposed, num_stages=num_stages)  # fmt: skip
    check(out, a, b, 2.0**-10 if dtype == "float32" else 0)


@triton.jit
def attention(q, k, v, out, n, D: tl.constexpr, BLOCK: tl.constexpr, CAUSAL: tl.constexpr):
    rows, d = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK), tl.arange(0, D)
    query = tl.load(q + rows[:, None] * D + d[None, :], mask=rows[:, None] < n, other=0.0)
    largest = tl.full((BLOCK,), -1e30, tl.float32)
    total = tl.zeros((BLOCK,), tl.float32)
    result = tl.zeros((BLOCK, D), tl.float32)
    end = (tl.program_id(0) + 1) * BLOCK if CAUSAL else n
    for start in range(0, end, BLOCK):
        columns = start + tl.arange(0, BLOCK)
        key = tl.load(k + columns[None, :] * D + d[:, None], mask=columns[None, :] < n, other=0.0)
        scores = tl.dot(query, key) * 0.125
        seen = columns[None, :] < n
        if CAUSAL:
            seen = seen & (columns[None, :] <= rows[:, None])
        scores = tl.where(seen, scores, -1e30)
        new_largest = tl.maximum(largest, tl.max(scores, axis=1))
        scale = tl.exp(largest - new_largest)
        weights = tl.exp(scores - new_largest[:, None])
        total = total * scale + tl.sum(weights, axis=1)
        value = tl.load(v + columns[:, None] * D + d[None, :], mask=columns[:, None] < n, other=0.0)
        result = tl.dot(weights.to(value.dtype), value, result * scale[:, None])
        largest = new_largest
    tl.store(out + rows[:, None] * D + d[None, :], result / total[:, None], mask=rows[:, None] < n)


@pytest.mark.parametrize("num_stages", [1, 3])
@pytest.mark.parametrize("num_warps", [2, 4])
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize("n", [64, 50])
def test_attention(n, causal, num_warps, num_stages):
    q, k, v = (values("float16", (n, 32), seed) for seed in (1, 2, 3))
    out = np.zeros((n, 32), np.float32)
    run(attention, triton.cdiv(n, 32), q, k, v, out, n, D=32, BLOCK=32, CAUSAL=causal, num_warps=num_warps,
        num_stages=num_stages)  # fmt: skip
    scores = q.astype(float) @ k.astype(float).T / 8
    if causal:
        scores[np.triu_indices(n, 1)] = -np.inf
    weights = np.exp(scores - scores.max(axis=1, keepdims=True))
    expected = weights / weights.sum(axis=1, keepdims=True) @ v.astype(float)
    assert np.abs(out - expected).max() < 4e-3

"""Tensor memory of sm_100: products with scale factors (`tl.dot_scaled`), and copies and loads in Gluon."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
import torch
import triton
import triton.language as tl
from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl
from triton.experimental.gluon.language.nvidia import blackwell

import gpuemu.triton

M, N, K = 128, 64, 128


@triton.jit
def scaled(
    a, a_scale, b, b_scale, c, BM: tl.constexpr, BN: tl.constexpr, K: tl.constexpr, VECTOR: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr, A_PACKED: tl.constexpr, B_PACKED: tl.constexpr,
):  # fmt: skip
    rows, columns, blocks = tl.arange(0, BM), tl.arange(0, BN), tl.arange(0, K // VECTOR)
    a_bytes, b_bytes = tl.arange(0, K // A_PACKED), tl.arange(0, K // B_PACKED)
    left = tl.load(a + rows[:, None] * (K // A_PACKED) + a_bytes[None, :])
    right = tl.load(b + columns[None, :] * (K // B_PACKED) + b_bytes[:, None])
    left_scale = tl.load(a_scale + rows[:, None] * (K // VECTOR) + blocks[None, :])
    right_scale = tl.load(b_scale + columns[:, None] * (K // VECTOR) + blocks[None, :])
    sums = tl.dot_scaled(left, left_scale, A, right, right_scale, B)
    tl.store(c + rows[:, None] * BN + columns[None, :], sums)


def matrix(kind, rows, generator):
    """Return a matrix as it is in memory, and its values in fp64."""
    if kind == "e2m1":
        codes = torch.randint(0, 16, (rows, K), generator=generator).to(torch.uint8)
        values = codes.numpy().view(ml_dtypes.float4_e2m1fn).astype(np.float64)
        return codes[:, ::2] | codes[:, 1::2] << 4, torch.from_numpy(values)
    values = torch.randint(-4, 5, (rows, K), generator=generator).to(torch.float8_e4m3fn)
    return values, values.double()


@pytest.mark.parametrize(("a", "b", "vector"), [("e4m3", "e2m1", 32), ("e2m1", "e2m1", 32), ("e2m1", "e2m1", 16)])
def test_scaled_products(a, b, vector):
    generator = torch.Generator().manual_seed(1)
    (left, exact_left), (right, exact_right) = matrix(a, M, generator), matrix(b, N, generator)
    powers = [torch.randint(0, 3, (rows, K // vector), generator=generator) for rows in (M, N)]
    # Of 32 elements each power of two is an exponent, of 16 an e4m3.
    scales = [(one + 127).to(torch.uint8) if vector == 32 else (2.0**one).to(torch.float8_e4m3fn) for one in powers]
    factors = [(2.0 ** one.double()).repeat_interleave(vector, 1) for one in powers]
    c = torch.full((M, N), float("nan"))
    packed = [2 if one == "e2m1" else 1 for one in (a, b)]
    with gpuemu.triton.emulated(on_finding="collect", arch="sm_100") as session:
        scaled[(1,)](left, scales[0], right, scales[1], c, M, N, K, vector, a, b, *packed)
    assert session.findings == ()
    assert torch.equal(c.double(), (exact_left * factors[0]) @ (exact_right * factors[1]).T)


@gluon.jit
def copied(x, y, ROWS: ttgl.constexpr, COLUMNS: ttgl.constexpr, SHAPE: ttgl.constexpr, WAIT: ttgl.constexpr):
    layout: ttgl.constexpr = ttgl.BlockedLayout([1, 4], [32, 1], [4, 1], [1, 0])
    rows = ttgl.arange(0, ROWS, ttgl.SliceLayout(1, layout))
    columns = ttgl.arange(0, COLUMNS, ttgl.SliceLayout(0, layout))
    swizzled: ttgl.constexpr = ttgl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=32, rank=2)
    tile = ttgl.allocate_shared_memory(ttgl.float32, [ROWS, COLUMNS], swizzled)
    tile.store(ttgl.load(x + rows[:, None] * COLUMNS + columns[None, :]))
    blackwell.fence_async_shared()
    memory = blackwell.allocate_tensor_memory(
        ttgl.float32, [ROWS, COLUMNS], blackwell.TensorMemoryLayout([ROWS, COLUMNS], col_stride=1)
    )
    done = blackwell.mbarrier.allocate_mbarrier()
    blackwell.mbarrier.init(done, count=1)
    blackwell.tcgen05_copy(tile, memory)
    blackwell.tcgen05_commit(done)
    if WAIT:
        blackwell.mbarrier.wait(done, 0)
    value = memory.load(memory.get_reg_layout(instr_variant=SHAPE))
    if not WAIT:
        blackwell.mbarrier.wait(done, 0)
    blackwell.mbarrier.invalidate(done)
    ttgl.store(y + rows[:, None] * COLUMNS + columns[None, :], ttgl.convert_layout(value, layout))


@pytest.mark.parametrize(
    ("shape", "wait"),
    [("32x32b", True), ("16x64b", True), ("16x128b", True), ("16x256b", True), ("32x32b", False)],
)
def test_copies_and_loads(shape, wait):
    x = torch.randn((128, 64))
    y = torch.full_like(x, float("nan"))
    with gpuemu.triton.emulated(on_finding="collect", arch="sm_100") as session:
        copied[(1,)](x, y, 128, 64, shape, wait, num_warps=4)
    assert torch.equal(x, y)
    assert [finding.rule for finding in session.findings] == ([] if wait else ["sync/async-order"])

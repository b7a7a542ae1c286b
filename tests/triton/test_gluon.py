"""Kernels in Gluon, where shared memory, barriers and copies are the program's: sm_90, one block and clusters of two."""

from __future__ import annotations

import pytest
import torch
from triton.experimental import gluon
from triton.experimental.gluon import language as ttgl
from triton.experimental.gluon.language.nvidia.hopper import mbarrier, tma
from triton.experimental.gluon.nvidia.hopper import TensorDescriptor

import gpuemu.triton

ROWS, COLUMNS = 64, 64


@gluon.constexpr_function
def split(ctas):
    """Return the layout of a tile whose rows are divided among the blocks of a cluster."""
    return [[1 << i, 0] for i in range(ctas.bit_length() - 1)]


@gluon.jit
def doubled(source, out, ROWS: ttgl.constexpr, COLUMNS: ttgl.constexpr, WAIT: ttgl.constexpr):
    layout: ttgl.constexpr = ttgl.BlockedLayout([1, 1], [1, 32], [4, 1], [1, 0], cga_layout=split(ttgl.num_ctas()))
    tile = ttgl.allocate_shared_memory(ttgl.float16, [ROWS, COLUMNS], source.layout)
    full = mbarrier.allocate_mbarrier()
    mbarrier.init(full, count=1)
    mbarrier.expect(full, source.nbytes_per_cta)
    tma.async_load(source, [0, 0], full, tile)
    if WAIT:
        mbarrier.wait(full, 0, deps=[tile])
    value = tile.load(layout)
    if not WAIT:
        mbarrier.wait(full, 0, deps=[tile])
    mbarrier.invalidate(full)
    rows = ttgl.arange(0, ROWS, ttgl.SliceLayout(1, layout))
    columns = ttgl.arange(0, COLUMNS, ttgl.SliceLayout(0, layout))
    ttgl.store(out + rows[:, None] * COLUMNS + columns[None, :], value + value)


@pytest.mark.parametrize("ctas", [1, 2])
@pytest.mark.parametrize("wait", [True, False])
def test_a_tile_is_read_before_or_after_its_copy_has_come(ctas, wait):
    rows = ROWS * ctas
    x = torch.randn((rows, COLUMNS)).half()
    y = torch.full_like(x, float("nan"))
    shared = ttgl.NVMMASharedLayout(swizzle_byte_width=128, element_bitwidth=16, rank=2, cga_layout=split.fn(ctas))
    described = TensorDescriptor.from_tensor(x, [rows, COLUMNS], shared)
    with gpuemu.triton.emulated(on_finding="collect", arch="sm_90") as session:
        doubled[(1,)](described, y, rows, COLUMNS, wait, num_warps=4, num_ctas=ctas)
    found = {finding.rule for finding in session.findings}
    if wait:
        assert found == set() and torch.equal(y, x + x)
    else:
        # The copy, which comes later, also races with the read.
        assert found == {"memory/uninitialized-read", "memory/shared-race"}

"""Products of matrices with wgmma, in pyptx: a correct kernel, and one whose descriptor of B takes wrong steps."""

import numpy as np
from pyptx import Tile, kernel, ptx, reg, smem
from pyptx.types import b32, bf16, f32, pred, u32

BM, BN, BK = 64, 64, 64
ROW_BYTES = BN * 2


def build_matmul(M, N, K):
    @kernel(
        in_specs=(
            Tile.wgmma_a(M, K, bf16, tile_m=BM, tile_k=BK),
            Tile.wgmma_b(K, N, bf16, tile_k=BK, tile_n=BN),
        ),
        out_specs=(Tile(M, N, f32),),
        grid=(N // BN, M // BM, 1),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def matmul(A, B, C):
        a = smem.wgmma_tile(bf16, (BM, BK), major="K")
        b = smem.wgmma_tile(bf16, (BK, BN), major="MN")
        row, column, sums = blocks_tile()
        for k in tiles(A, B, a, b, row, column, K):
            ptx.wgmma.fence()
            for step in range(BK // 16):
                # B is stored by rows of N: sixteen rows further is sixteen rows of bytes.
                product(sums, a, b, step * 32, step * 16 * ROW_BYTES, (k != 0) if step == 0 else True)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
        store(C, sums, row, column, N)
        ptx.ret()

    return matmul


def build_matmul_wrong(M, N, K):
    @kernel(
        in_specs=(
            Tile.wgmma_a(M, K, bf16, tile_m=BM, tile_k=BK),
            Tile.wgmma_b(K, N, bf16, tile_k=BK, tile_n=BN),
        ),
        out_specs=(Tile(M, N, f32),),
        grid=(N // BN, M // BM, 1),
        block=(128, 1, 1),
        arch="sm_90a",
    )
    def matmul_wrong(A, B, C):
        a = smem.wgmma_tile(bf16, (BM, BK), major="K")
        b = smem.wgmma_tile(bf16, (BK, BN), major="MN")
        row, column, sums = blocks_tile()
        for k in tiles(A, B, a, b, row, column, K):
            ptx.wgmma.fence()
            for step in range(BK // 16):
                # Wrong: 32 bytes are sixteen elements along a row of A, but along N in B.
                product(sums, a, b, step * 32, step * 32, (k != 0) if step == 0 else True)
            ptx.wgmma.commit_group()
            ptx.wgmma.wait_group(0)
        store(C, sums, row, column, N)
        ptx.ret()

    return matmul_wrong


def blocks_tile():
    """Return the first row and column of this block's tile, and registers for its elements."""
    row, column = reg.scalar(u32), reg.scalar(u32)
    ptx.inst.mov.u32(row, ptx.special.ctaid.y())
    ptx.inst.mul.lo.u32(row, row, BM)
    ptx.inst.mov.u32(column, ptx.special.ctaid.x())
    ptx.inst.mul.lo.u32(column, column, BN)
    return row, column, reg.array(f32, BN // 2)


def tiles(A, B, a, b, row, column, K):
    """Load one tile of A and B after the other; yields the first k of each."""
    full, phase = smem.mbarrier(1), reg.scalar(b32, init=0)
    thread = ptx.special.tid.x()
    with ptx.if_(thread == 0):
        ptx.mbarrier.init(full[0], 1)
        ptx.fence.proxy_async_shared_cta()
    k, more = reg.scalar(u32, init=0), reg.scalar(pred)
    ptx.inst.setp.lt.u32(more, k, K)
    with ptx.loop("over_k", pred=more):
        with ptx.if_(thread == 0):
            ptx.mbarrier.arrive_expect_tx(full[0], (BM * BK + BK * BN) * 2)
            ptx.cp.async_.bulk.tensor_2d(dst=a[0], src=A.tma_desc(), coord=(k, row), mbar=full[0])
            ptx.cp.async_.bulk.tensor_2d(dst=b[0], src=B.tma_desc(), coord=(column, k), mbar=full[0])
        ptx.bar.sync(0)
        ptx.mbarrier.wait(full[0], phase)
        phase ^= 1
        yield k
        k += BK
        ptx.inst.setp.lt.u32(more, k, K)


def product(sums, a, b, a_offset, b_offset, accumulate):
    """Add the product of sixteen columns of A with sixteen rows of B to the sums."""
    ptx.wgmma.mma_async(
        shape=(64, BN, 16),
        dtype_d=f32,
        dtype_a=bf16,
        dtype_b=bf16,
        d=sums,
        a=a,
        b=b,
        scale_d=accumulate,
        trans_a=0,
        trans_b=1,
        a_k_offset=a_offset,
        b_k_offset=b_offset,
    )


def store(C, sums, row, column, N):
    """Store the sums as wgmma distributes them over the threads of the warp group."""
    (c,) = ptx.global_ptrs(C)
    thread = reg.scalar(u32)
    ptx.inst.mov.u32(thread, ptx.special.tid.x())
    lane = thread & 31
    row = row + ((thread >> 5) << 4) + (lane >> 2)
    column = column + ((lane & 3) << 1)
    for group in range(BN // 8):
        for half in range(2):
            offset = ((row + 8 * half) * N + column + 8 * group) * 4
            first = 4 * group + 2 * half
            ptx.inst.st.global_.v2.f32(ptx.addr(c + offset), [sums[first], sums[first + 1]])


def reference(inputs):
    return np.asarray(inputs["A"]) @ np.asarray(inputs["B"])


if __name__ == "__main__":
    print(build_matmul(128, 64, 128).ptx())
    print(build_matmul_wrong(64, 64, 64).ptx())

"""Ten planted bugs, each with the correct counterpart that it is made from.

`wrong` is a constant of the compilation: False gives the correct kernel. A line that is wrong ends with the rule that is
expected of it.
"""

import cutlass
import cutlass.cute as cute
import cutlass.experimental.cuda as cuda
import numpy as np
from cuda.bindings import driver
from cutlass import Constexpr, Float32, Int32, Int64
from cutlass.cute.runtime import make_ptr
from cutlass.experimental import primitives as prims

SHARED = cutlass.AddressSpace.smem
THREADS = 64


@cute.kernel
def missing_barrier(x: cute.Tensor, y: cute.Tensor, wrong: Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    tile = cutlass.Array(Float32, THREADS, space=SHARED)
    tile[thread] = x[thread]
    if cutlass.const_expr(not wrong):
        prims.barrier_cta_sync(0)
    y[thread] = tile[THREADS - 1 - thread]  # expect: memory/shared-race


@cute.kernel
def pending_copies(x: cute.Tensor, y: cute.Tensor, wrong: Constexpr):
    """Two stages of asynchronous copies; the last may be pending where one group too many is allowed to be."""
    thread, _, _ = cute.arch.thread_idx()
    tile = cutlass.Array(Float32, (2, THREADS), space=SHARED)
    for stage in cutlass.range_constexpr(2):
        source = x.iterator.raw_ptr() + stage * THREADS + thread
        prims.cp_async_shared_global(tile.data_ptr() + stage * THREADS + thread, source, 4, "ca")
        prims.cp_async_commit_group()
    prims.cp_async_wait_group(1 if wrong else 0)
    prims.barrier_cta_sync(0)
    y[thread] = tile[0, thread]
    y[thread + THREADS] = tile[1, thread]  # expect: memory/uninitialized-read


@cute.kernel
def tail(x: cute.Tensor, y: cute.Tensor, wrong: Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    last = cute.size(x) if wrong else cute.size(x) - 1
    if thread <= last:
        y[thread] = x[thread]  # expect: memory/out-of-bounds


@cute.kernel
def shared_bytes(x: cute.Tensor, y: cute.Tensor, wrong: Constexpr):
    """Dynamic shared memory for all threads, or the half of them."""
    thread, _, _ = cute.arch.thread_idx()
    tile = cute.make_tensor(cute.arch.get_dyn_smem(Float32, alignment=16), cute.make_layout(THREADS))
    tile[thread] = x[thread]  # expect: memory/out-of-bounds
    y[thread] = tile[thread]


@cute.kernel
def transposed(x: cute.Tensor, y: cute.Tensor, wrong: Constexpr):
    """A matrix of 8 rows and 5 columns, whose rows are one after another, or taken as if they were columns of 8."""
    thread, _, _ = cute.arch.thread_idx()
    matrix = cute.make_tensor(x.iterator, cute.make_layout((8, 5), stride=(8, 1) if wrong else (5, 1)))
    if thread < 8:
        y[thread] = matrix[thread, 4]  # expect: memory/out-of-bounds


@cute.kernel
def misaligned(x: cute.Tensor, y: cute.Tensor, wrong: Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    tile = cutlass.Array(Float32, 16, space=SHARED, alignment=16)
    if thread < 4:
        source = x.iterator.raw_ptr() + 4 * thread + (1 if wrong else 0)
        prims.cp_async_shared_global(tile.data_ptr() + 4 * thread, source, 16, "cg")  # expect: memory/misaligned
        prims.cp_async_commit_group()
        prims.cp_async_wait_group(0)
    y[thread] = Float32(1)


@cute.kernel
def unwritten(x: cute.Tensor, y: cute.Tensor, wrong: Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    tile = cutlass.Array(Float32, THREADS, space=SHARED)
    if thread < (THREADS - 1 if wrong else THREADS):
        tile[thread] = x[thread]
    prims.barrier_cta_sync(0)
    y[thread] = tile[THREADS - 1 - thread]  # expect: memory/uninitialized-read


@cute.kernel
def divergent_barrier(x: cute.Tensor, y: cute.Tensor, wrong: Constexpr):
    thread, _, _ = cute.arch.thread_idx()
    if thread < (16 if wrong else THREADS):
        prims.barrier_cta_sync(0)  # expect: sync/barrier-divergence
    y[thread] = x[thread]


@cute.kernel
def box_outside(tensor: cutlass.GridConstant[cuda.TensorMap], y: cute.Tensor, wrong: Constexpr):
    """A box of 8 by 32 numbers, copied to a tile of as many, or of half as many."""
    thread, _, _ = cute.arch.thread_idx()
    tile = cutlass.Array(Float32, 128 if wrong else 256, space=SHARED, alignment=128)
    barrier = cutlass.Array(Int64, 1, space=SHARED)
    if thread == 0:
        prims.mbarrier_init(barrier, 1)
    prims.fence_mbarrier_init()
    prims.barrier_cta_sync(0)
    if thread == 0:
        prims.mbarrier_arrive_expect_tx(barrier, tensor.global_tx_bytes())
        copy = prims.cp_async_bulk_tensor_shared_cta_global
        copy(tile, tensor.get_ptr(), (0, 0), barrier)  # expect: memory/out-of-bounds
    while not prims.mbarrier_try_wait_parity(barrier, 0, time_limit=1_000_000):
        pass
    y[thread] = Float32(1) if cutlass.const_expr(wrong) else tile[thread]


@cute.kernel
def missing_cluster_barrier(x: cute.Tensor, y: cute.Tensor, wrong: Constexpr):
    """Each of two blocks reads what the other has written to its shared memory."""
    thread, _, _ = cute.arch.thread_idx()
    block, _, _ = cute.arch.block_idx()
    rank = cute.arch.block_idx_in_cluster()
    tile = cutlass.Array(Float32, THREADS, space=SHARED)
    tile[thread] = x[thread]
    if cutlass.const_expr(not wrong):
        prims.barrier_cluster_arrive()
        prims.barrier_cluster_wait()
    other = prims.mapa(tile.data_ptr(), Int32(1) - rank)
    y[block * THREADS + thread] = other[thread]  # expect: memory/out-of-bounds memory/shared-race
    prims.barrier_cluster_arrive()
    prims.barrier_cluster_wait()


@cute.jit
def launch(kernel: Constexpr, x_ptr: cute.Pointer, y_ptr: cute.Pointer, n: Int32, wrong: Constexpr, shared: Constexpr):
    x = cute.make_tensor(x_ptr, cute.make_layout((n,)))
    y = cute.make_tensor(y_ptr, cute.make_layout((n,)))
    kernel(x, y, wrong).launch(grid=(1, 1, 1), block=(THREADS, 1, 1), smem=shared)


@cute.jit
def launch_cluster(x_ptr: cute.Pointer, y_ptr: cute.Pointer, n: Int32, wrong: Constexpr):
    x = cute.make_tensor(x_ptr, cute.make_layout((n,)))
    y = cute.make_tensor(y_ptr, cute.make_layout((n,)))
    missing_cluster_barrier(x, y, wrong).launch(grid=(2, 1, 1), block=(THREADS, 1, 1), cluster=(2, 1, 1))


@cute.jit
def launch_tma(x_ptr: cute.Pointer, y_ptr: cute.Pointer, n: Int32, wrong: Constexpr):
    matrix = cute.make_tensor(x_ptr, cute.make_layout((16, 32), stride=(32, 1)))
    y = cute.make_tensor(y_ptr, cute.make_layout((n,)))
    tensor = cuda.create_tensor_map_tiled_from_view(matrix, box_dims=(8, 32), stride_order=(1, 0))
    box_outside(tensor, y, wrong).launch(grid=(1, 1, 1), block=(THREADS, 1, 1))


def check(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) > 1 else None


def run(host, elements, before=(), after=()):
    """Call a host function with 0, 1, ... and as many zeros, twice as many of both; return what the zeros have become."""
    x, y = np.arange(elements, dtype=np.float32), np.zeros(max(elements, 2 * THREADS), dtype=np.float32)
    addresses = check(driver.cuMemAlloc(x.nbytes)), check(driver.cuMemAlloc(y.nbytes))
    check(driver.cuMemcpyHtoD(addresses[0], x.ctypes.data, x.nbytes))
    check(driver.cuMemcpyHtoD(addresses[1], y.ctypes.data, y.nbytes))
    pointers = [make_ptr(Float32, int(address), cute.AddressSpace.gmem, assumed_align=16) for address in addresses]
    host(*before, *pointers, elements, *after)
    driver.cuCtxSynchronize()
    check(driver.cuMemcpyDtoH(y.ctypes.data, addresses[1], y.nbytes))
    return y


check(driver.cuInit(0))
check(driver.cuCtxSetCurrent(check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))))

ELEMENTS = {pending_copies: 2 * THREADS, tail: THREADS - 1, transposed: 40}
"""Elements of the first vector, where there are not as many as threads."""


def try_all(wrong):
    """Return the results of all kernels by name."""
    results = {}
    for kernel in (missing_barrier, pending_copies, tail, transposed, misaligned, unwritten, divergent_barrier):
        results[kernel] = run(launch, ELEMENTS.get(kernel, THREADS), [kernel], [wrong, None])
    shared = THREADS * (2 if wrong else 4)
    results[shared_bytes] = run(launch, THREADS, [shared_bytes], [wrong, shared])
    results[box_outside] = run(launch_tma, 512, [], [wrong])
    results[missing_cluster_barrier] = run(launch_cluster, THREADS, [], [wrong])
    return results


right = try_all(wrong=False)
numbers = np.arange(2 * THREADS, dtype=np.float32)
assert (right[missing_barrier][:THREADS] == numbers[:THREADS][::-1]).all()
assert (right[pending_copies] == numbers).all()
assert (right[tail][: THREADS - 1] == numbers[: THREADS - 1]).all()
assert (right[shared_bytes][:THREADS] == numbers[:THREADS]).all()
assert (right[transposed][:8] == numbers[4:40:5]).all()
assert (right[box_outside][:THREADS] == numbers[:THREADS]).all()
assert (right[missing_cluster_barrier] == np.tile(numbers[:THREADS], 2)).all()
print("right")
try_all(wrong=True)

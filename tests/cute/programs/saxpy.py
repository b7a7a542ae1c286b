"""y = a x + y, as it is run on a GPU: pointers of the driver, a size of the launch."""

import cutlass
import cutlass.cute as cute
import numpy as np
from cuda.bindings import driver
from cutlass import Float32
from cutlass.cute.runtime import make_ptr


@cute.kernel
def saxpy_kernel(x: cute.Tensor, y: cute.Tensor, a: Float32):
    tidx, _, _ = cute.arch.thread_idx()
    bidx, _, _ = cute.arch.block_idx()
    bdim, _, _ = cute.arch.block_dim()
    i = bidx * bdim + tidx
    if i < cute.size(x):
        y[i] = a * x[i] + y[i]


@cute.jit
def saxpy(x_ptr: cute.Pointer, y_ptr: cute.Pointer, n: cutlass.Int32, a: Float32):
    x = cute.make_tensor(x_ptr, cute.make_layout((n,)))
    y = cute.make_tensor(y_ptr, cute.make_layout((n,)))
    saxpy_kernel(x, y, a).launch(grid=((n + 255) // 256, 1, 1), block=(256, 1, 1))


def check(result):
    assert result[0] == driver.CUresult.CUDA_SUCCESS, result[0]
    return result[1] if len(result) > 1 else None


check(driver.cuInit(0))
context = check(driver.cuDevicePrimaryCtxRetain(check(driver.cuDeviceGet(0))))
check(driver.cuCtxSetCurrent(context))
n = 1000
x, y = np.arange(n, dtype=np.float32), np.ones(n, dtype=np.float32)
dx, dy = check(driver.cuMemAlloc(4 * n)), check(driver.cuMemAlloc(4 * n))
check(driver.cuMemcpyHtoD(dx, x.ctypes.data, 4 * n))
check(driver.cuMemcpyHtoD(dy, y.ctypes.data, 4 * n))
px = make_ptr(Float32, int(dx), cute.AddressSpace.gmem, assumed_align=16)
py = make_ptr(Float32, int(dy), cute.AddressSpace.gmem, assumed_align=16)
saxpy(px, py, n, 2.0)
out = np.empty_like(y)
check(driver.cuMemcpyDtoH(out.ctypes.data, dy, 4 * n))
assert (out == 2 * x + 1).all()
print("right")

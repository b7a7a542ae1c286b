"""PyCUDA's SourceModule."""

import numpy as np
import pycuda.autoinit  # noqa: F401
import pycuda.driver as drv
from pycuda.compiler import SourceModule

mod = SourceModule("""
__global__ void multiply(float *dest, float *a, float *b, int n)
{
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n + 1)
        dest[i] = a[i] * b[i];  // expect: memory/out-of-bounds
}
""", options=["-O3"], no_extern_c=False)

multiply = mod.get_function("multiply")
a = np.random.randn(400).astype(np.float32)
b = np.random.randn(400).astype(np.float32)
dest = np.zeros_like(a)
multiply(drv.Out(dest), drv.In(a), drv.In(b), np.int32(400), block=(256, 1, 1), grid=(2, 1))

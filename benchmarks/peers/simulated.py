# ruff: noqa: ANN001, ANN201
"""Kernels of kernels.cu for numba's CUDA simulator, which needs ``cuda`` to be a global of the module."""

import math

from numba import cuda, float32, int32


@cuda.jit
def saxpy(a, x, y, n):
    i = cuda.grid(1)
    if i < n:
        y[i] = a * x[i] + y[i]


@cuda.jit
def gelu(x, y, n):
    i = cuda.grid(1)
    if i < n:
        v = x[i]
        y[i] = 0.5 * v * (1.0 + math.tanh(0.7978845608 * (v + 0.044715 * v * v * v)))


@cuda.jit
def transpose(x, y, n):
    tile = cuda.shared.array((32, 33), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    c, r = cuda.blockIdx.x * 32 + tx, cuda.blockIdx.y * 32 + ty
    for j in range(0, 32, 8):
        tile[ty + j, tx] = x[r + j, c]
    cuda.syncthreads()
    c, r = cuda.blockIdx.y * 32 + tx, cuda.blockIdx.x * 32 + ty
    for j in range(0, 32, 8):
        y[r + j, c] = tile[tx, ty + j]


@cuda.jit
def matmul_tiled(a, b, out, n):
    left = cuda.shared.array((16, 16), float32)
    right = cuda.shared.array((16, 16), float32)
    tx, ty = cuda.threadIdx.x, cuda.threadIdx.y
    row, col = cuda.blockIdx.y * 16 + ty, cuda.blockIdx.x * 16 + tx
    total = float32(0)
    for start in range(0, n, 16):
        left[ty, tx] = a[row, start + tx]
        right[ty, tx] = b[start + ty, col]
        cuda.syncthreads()
        for k in range(16):
            total += left[ty, k] * right[k, tx]
        cuda.syncthreads()
    out[row, col] = total


@cuda.jit
def histogram(x, bins, n):
    mine = cuda.shared.array(256, int32)
    t = cuda.threadIdx.x
    mine[t] = 0
    cuda.syncthreads()
    for i in range(cuda.blockIdx.x * 256 + t, n, cuda.gridDim.x * 256):
        cuda.atomic.add(mine, x[i] & 255, 1)
    cuda.syncthreads()
    cuda.atomic.add(bins, t, mine[t])

"""The kernels of rows.py with planted bugs, each with its finding in a comment."""

import torch
import triton
import triton.language as tl
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>

__global__ void scale_rows(const float* __restrict__ x, const float* __restrict__ factors, float* __restrict__ y,
                           int rows, int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] * factors[i / columns];  // bug: memory/out-of-bounds
}

torch::Tensor scaled_rows(torch::Tensor x, torch::Tensor factors) {
    auto y = torch::empty_like(x);
    scale_rows<<<(x.numel() + 255) / 256, 256, 0, c10::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), factors.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    return y;
}
"""

extension = load_inline(
    name="mixed_rows",
    cpp_sources="torch::Tensor scaled_rows(torch::Tensor x, torch::Tensor factors);",
    cuda_sources=CUDA,
    functions=["scaled_rows"],
)


@triton.jit
def softmax_rows(x, y, columns, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(x + row + places, mask=places < columns, other=-float("inf"))  # bug: api/stream-race
    exponentials = tl.exp(values - tl.max(values, 0))
    tl.store(y + row + places, exponentials / tl.sum(exponentials, 0), mask=places < columns)


@triton.jit
def add_rows(x, total, columns, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    row = tl.load(x + tl.program_id(0) * columns + places, mask=places < columns, other=0.0)
    tl.atomic_add(total + places, row, mask=places < columns)  # bug: memory/uninitialized-read


@triton.jit
def negate(x, y, count, BLOCK: tl.constexpr):
    places = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    values = tl.load(x + places, mask=places < count)
    tl.store(y + places, -values)  # bug: memory/out-of-bounds


x = torch.rand(4, 256, device="cuda")
y, total = torch.empty_like(x), torch.empty(256, device="cuda")
add_rows[(4,)](x, total, 256, BLOCK=256)

stream = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(stream):
    scaled = extension.scaled_rows(x, torch.ones(4, device="cuda"))
softmax_rows[(4,)](scaled, y, 256, BLOCK=256)
torch.cuda.synchronize()

x = torch.rand(5, 300, device="cuda")
y, factors = torch.empty(300, device="cuda"), torch.ones(5, device="cuda")
negate[(2,)](x, y, 300, BLOCK=256)
extension.scaled_rows(x, factors)

"""A softmax of rows in Triton and their scale in CUDA C++, on one device: `gpuemu run rows.py`, without a GPU."""

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
    if (i < rows * columns) y[i] = x[i] * factors[i / columns];
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


@triton.autotune(configs=[triton.Config({}, num_warps=warps) for warps in (2, 4)], key=["columns"])
@triton.jit
def softmax_rows(x, y, columns, BLOCK: tl.constexpr):
    places = tl.arange(0, BLOCK)
    row = tl.program_id(0) * columns
    values = tl.load(x + row + places, mask=places < columns, other=-float("inf"))
    exponentials = tl.exp(values - tl.max(values, 0))
    tl.store(y + row + places, exponentials / tl.sum(exponentials, 0), mask=places < columns)


def scaled_softmax(x, factors):
    y = torch.empty_like(x)
    softmax_rows[(x.size(0),)](x, y, x.size(1), BLOCK=triton.next_power_of_2(x.size(1)))
    return extension.scaled_rows(y, factors)


x = torch.rand(5, 300, device="cuda")
factors = torch.rand(5, device="cuda")
expected = torch.softmax(x, 1) * factors[:, None]
torch.testing.assert_close(scaled_softmax(x, factors), expected)

stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    y = scaled_softmax(x, factors)
x.record_stream(stream)
factors.record_stream(stream)
del x, factors
torch.cuda.current_stream().wait_stream(stream)
torch.testing.assert_close(y, expected)
print("all rows are right")

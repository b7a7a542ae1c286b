"""The extension of row_sums.py with planted bugs, each with its finding in a comment."""

import torch
from torch.utils.cpp_extension import load_inline

CUDA = r"""
#include <torch/extension.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAGuard.h>

template <typename scalar_t>
__global__ void row_sums(const scalar_t* __restrict__ x, float* __restrict__ sums, int columns) {
    __shared__ float parts[128];
    float sum = 0;
    for (int i = threadIdx.x; i < columns; i += blockDim.x)
        sum += static_cast<float>(x[blockIdx.x * (size_t)columns + i]);
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2)
        if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];  // bug: memory/shared-race
    if (threadIdx.x == 0) sums[blockIdx.x] = parts[0];
}

__global__ void scale_rows(const float* __restrict__ x, const float* __restrict__ sums, float* __restrict__ y, int rows,
                           int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = x[i] / sums[i / columns];  // bug: memory/out-of-bounds
}

__global__ void add_rows(const float* __restrict__ x, float* __restrict__ total, int count) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < count) atomicAdd(total, x[i]);  // bug: memory/uninitialized-read
}

torch::Tensor sum_of_rows(torch::Tensor x) {
    auto sums = torch::empty({x.size(0)}, x.options().dtype(torch::kFloat32));
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "row_sums", [&] {
        row_sums<scalar_t><<<x.size(0), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), sums.data_ptr<float>(), x.size(1));
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return sums;
}

torch::Tensor scaled_rows(torch::Tensor x, torch::Tensor sums) {
    auto y = torch::empty_like(x);
    scale_rows<<<(x.numel() + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), sums.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}

torch::Tensor total(torch::Tensor x) {
    auto sum = torch::empty({1}, x.options());
    add_rows<<<(x.numel() + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), sum.data_ptr<float>(), x.numel());
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return sum;
}
"""

NAMES = (
    "torch::Tensor sum_of_rows(torch::Tensor x)",
    "torch::Tensor scaled_rows(torch::Tensor x, torch::Tensor sums)",
    "torch::Tensor total(torch::Tensor x)",
)
extension = load_inline(
    name="row_sums_buggy",
    cpp_sources="; ".join(NAMES) + ";",
    cuda_sources=CUDA,
    functions=["sum_of_rows", "scaled_rows", "total"],
)


x = torch.rand(5, 300, device="cuda")
extension.sum_of_rows(x)
extension.total(x)

stream = torch.cuda.Stream()
torch.cuda.synchronize()
with torch.cuda.stream(stream):
    y = x * 2
z = y + 1  # bug: api/stream-race
torch.cuda.synchronize()

with torch.cuda.stream(stream):
    extension.sum_of_rows(x)
del x  # bug: api/stream-race
torch.cuda.synchronize()

print(torch.empty(3, device="cuda").sum().item())  # bug: api/uninitialized-copy

# As on a GPU, the access out of bounds is an error of the launch, after which nothing works.
extension.scaled_rows(torch.rand(5, 300, device="cuda"), torch.ones(5, device="cuda"))

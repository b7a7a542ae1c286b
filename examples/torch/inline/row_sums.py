"""Sums and scaled rows by an extension that `load_inline` compiles: `gpuemu run row_sums.py`, without a GPU."""

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
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (threadIdx.x < step) parts[threadIdx.x] += parts[threadIdx.x + step];
        __syncthreads();
    }
    if (threadIdx.x == 0) sums[blockIdx.x] = parts[0];
}

__global__ void scale_rows(const float* __restrict__ x, const float* __restrict__ sums, float* __restrict__ y, int rows,
                           int columns) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < rows * columns) y[i] = x[i] / sums[i / columns];
}

torch::Tensor sum_of_rows(torch::Tensor x) {
    TORCH_CHECK(x.is_cuda() && x.is_contiguous() && x.dim() == 2, "x must be a contiguous matrix on the device");
    const at::cuda::OptionalCUDAGuard guard(x.device());
    auto sums = torch::empty({x.size(0)}, x.options().dtype(torch::kFloat32));
    AT_DISPATCH_FLOATING_TYPES_AND_HALF(x.scalar_type(), "row_sums", [&] {
        row_sums<scalar_t><<<x.size(0), 128, 0, at::cuda::getCurrentCUDAStream()>>>(
            x.data_ptr<scalar_t>(), sums.data_ptr<float>(), x.size(1));
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return sums;
}

torch::Tensor normalized_rows(torch::Tensor x) {
    auto sums = sum_of_rows(x);
    auto y = torch::empty_like(x);
    int count = x.numel();
    scale_rows<<<(count + 255) / 256, 256, 0, at::cuda::getCurrentCUDAStream()>>>(
        x.data_ptr<float>(), sums.data_ptr<float>(), y.data_ptr<float>(), x.size(0), x.size(1));
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return y;
}
"""

extension = load_inline(
    name="row_sums",
    cpp_sources="torch::Tensor sum_of_rows(torch::Tensor x); torch::Tensor normalized_rows(torch::Tensor x);",
    cuda_sources=CUDA,
    functions=["sum_of_rows", "normalized_rows"],
)

for dtype in (torch.float32, torch.float64, torch.float16):
    x = torch.rand(5, 300, device="cuda", dtype=dtype)
    torch.testing.assert_close(extension.sum_of_rows(x), x.float().sum(1), rtol=1e-4, atol=1e-3)

x = torch.rand(5, 300, device="cuda")
stream = torch.cuda.Stream()
stream.wait_stream(torch.cuda.current_stream())
with torch.cuda.stream(stream):
    y = extension.normalized_rows(x)
x.record_stream(stream)
del x
torch.cuda.current_stream().wait_stream(stream)
torch.testing.assert_close(y.sum(1), torch.ones(5, device="cuda"))
print("all sums are right")

#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAException.h>

#include "segments.h"

namespace {

__device__ __forceinline__ int begin_of(const int* ends, int segment) { return segment ? ends[segment - 1] : 0; }

template <typename scalar_t>
__global__ void segment_sums_kernel(const scalar_t* values, const int* ends, scalar_t* sums, int segments) {
    int segment = blockIdx.x * blockDim.x + threadIdx.x;
    if (segment >= segments) return;
    scalar_t sum = 0;
    for (int i = begin_of(ends, segment); i < ends[segment]; i++) sum += values[i];
    sums[segment] = sum;
}

}  // namespace

torch::Tensor segment_sums(torch::Tensor values, torch::Tensor ends) {
    TORCH_CHECK(values.is_cuda() && ends.is_cuda(), "both must be on the device");
    int segments = ends.numel();
    auto sums = torch::empty({segments}, values.options());
    AT_DISPATCH_FLOATING_TYPES(values.scalar_type(), "segment_sums", [&] {
        segment_sums_kernel<scalar_t><<<(segments + 127) / 128, 128, 0, at::cuda::getCurrentCUDAStream()>>>(
            values.data_ptr<scalar_t>(), ends.data_ptr<int>(), sums.data_ptr<scalar_t>(), segments);
    });
    C10_CUDA_KERNEL_LAUNCH_CHECK();
    return sums;
}

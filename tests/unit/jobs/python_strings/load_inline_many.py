"""load_inline with several sources, among them constants of a class."""

import torch.utils.cpp_extension


class Sources:
    helpers = """
__device__ inline float twice(float x) { return 2.0f * x; }
"""
    kernel = r"""
__global__ void reverse(const float* x, float* y, int n) {
    __shared__ float tile[256];
    int i = blockIdx.x * 256 + threadIdx.x;
    if (i < n) tile[threadIdx.x] = twice(x[i]);
    int count = min(256, n - static_cast<int>(blockIdx.x) * 256);
    if (i < n) y[i] = tile[count - 1 - threadIdx.x];  // expect: memory/shared-race
}

void launch(torch::Tensor x, torch::Tensor y) {
    int n = x.size(0);
    reverse<<<(n + 255) / 256, 256>>>(x.data_ptr<float>(), y.data_ptr<float>(), n);
}
"""


module = torch.utils.cpp_extension.load_inline(
    "reverse", ["void launch(torch::Tensor x, torch::Tensor y);"], [Sources.helpers, Sources.kernel], ["launch"]
)

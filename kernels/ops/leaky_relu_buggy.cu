// Leaky ReLU with the wrong slope.
#include <cuda_fp16.h>

template <typename T>
__global__ void leaky_relu(const T* __restrict__ x, T* __restrict__ y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += blockDim.x * gridDim.x) {
        float v = static_cast<float>(x[i]);
        y[i] = static_cast<T>(v > 0.0f ? v : 0.1f * v);  // expect: numeric/tolerance-exceeded
    }
}

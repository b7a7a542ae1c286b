// GELU in its tanh form, one thread per element.
#include <cuda_fp16.h>

template <typename T>
__global__ void gelu(const T* x, T* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float v = static_cast<float>(x[i]);
    y[i] = static_cast<T>(0.5f * v * (1.0f + tanhf(0.79788456f * (v + 0.044715f * v * v * v))));
}

// GELU without the factor 0.5.
#include <cuda_fp16.h>

template <typename T>
__global__ void gelu(const T* __restrict__ x, T* __restrict__ y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) {
        float v = static_cast<float>(x[i]);
        float inner = 0.7978845608f * (v + 0.044715f * v * v * v);
        y[i] = static_cast<T>(v * (1.0f + tanhf(inner)));  // expect: numeric/tolerance-exceeded
    }
}

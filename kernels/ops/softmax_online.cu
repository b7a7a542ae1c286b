// Row softmax in one warp per row, running maximum and rescaled sum. clean
#include <cuda_fp16.h>

// exp(a - b); 1 if both are the initial maximum, -inf.
__device__ float exp_difference(float a, float b) {
    return a == -INFINITY && b == -INFINITY ? 1.0f : __expf(a - b);
}

template <typename T>
__global__ void softmax(const T* __restrict__ x, T* __restrict__ y, int rows, int cols) {
    const int row = blockIdx.x * blockDim.y + threadIdx.y;
    if (row >= rows) return;
    const T* in = x + (size_t)row * cols;
    T* out = y + (size_t)row * cols;
    float top = -INFINITY, sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 32) {
        float v = static_cast<float>(in[j]);
        float next = fmaxf(top, v);
        sum = sum * exp_difference(top, next) + exp_difference(v, next);
        top = next;
    }
    for (int offset = 16; offset > 0; offset >>= 1) {
        float other_top = __shfl_xor_sync(0xffffffffu, top, offset);
        float other_sum = __shfl_xor_sync(0xffffffffu, sum, offset);
        float next = fmaxf(top, other_top);
        sum = sum * exp_difference(top, next) + other_sum * exp_difference(other_top, next);
        top = next;
    }
    for (int j = threadIdx.x; j < cols; j += 32) {
        out[j] = static_cast<T>(__expf(static_cast<float>(in[j]) - top) / sum);
    }
}

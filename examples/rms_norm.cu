// RMS normalisation over rows, one warp per row; the sum goes through shuffles instead of shared memory.
#include <cuda_fp16.h>

template <typename T>
__global__ void rms_norm(const T* x, const float* weight, T* y, int cols, float eps) {
    const T* row = x + (size_t)blockIdx.x * cols;
    float squares = 0.0f;
    for (int c = threadIdx.x; c < cols; c += 32) {
        float v = static_cast<float>(row[c]);
        squares += v * v;
    }
    for (int step = 16; step > 0; step /= 2) squares += __shfl_xor_sync(0xffffffff, squares, step);
    float scale = rsqrtf(squares / cols + eps);
    for (int c = threadIdx.x; c < cols; c += 32)
        y[(size_t)blockIdx.x * cols + c] = static_cast<T>(static_cast<float>(row[c]) * scale * weight[c]);
}

// RMS norm of half values; squares are summed in fp32. clean
#include <cuda_fp16.h>

__global__ void half_rms(const __half* x, __half* y, int cols) {
    const __half* row = x + blockIdx.x * cols;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < cols; j += 32) sum += __half2float(row[j]) * __half2float(row[j]);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    const float scale = rsqrtf(sum / cols + 1e-5f);
    for (int j = threadIdx.x; j < cols; j += 32) y[blockIdx.x * cols + j] = __float2half(__half2float(row[j]) * scale);
}

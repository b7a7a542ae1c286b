// RMS norm of bfloat16 rows, two elements per load where they are aligned. clean
#include <cuda_bf16.h>

__global__ void bfloat_norm(const __nv_bfloat16* x, __nv_bfloat16* y, int cols) {
    const __nv_bfloat16* row = x + blockIdx.x * cols;
    __nv_bfloat16* out = y + blockIdx.x * cols;
    const int whole = cols % 2 == 0 ? cols / 2 : 0;
    float sum = 0.0f;
    for (int j = threadIdx.x; j < whole; j += 32) {
        const float2 v = __bfloat1622float2(reinterpret_cast<const __nv_bfloat162*>(row)[j]);
        sum += v.x * v.x + v.y * v.y;
    }
    for (int j = 2 * whole + threadIdx.x; j < cols; j += 32) sum += __bfloat162float(row[j]) * __bfloat162float(row[j]);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    const float scale = rsqrtf(sum / cols + 1e-5f);
    for (int j = threadIdx.x; j < cols; j += 32) out[j] = __float2bfloat16(__bfloat162float(row[j]) * scale);
}

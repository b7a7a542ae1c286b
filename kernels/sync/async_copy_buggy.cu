// The copies are not waited for: the barrier orders threads, not copies in flight.
#include <cuda_pipeline.h>

__global__ void async_copy_buggy(const float* x, float* y, int n) {
    __shared__ float tile[2][64];
    const int t = threadIdx.x, tiles = (n + 63) / 64;
    float sum = 0.0f;
    if (t < n) __pipeline_memcpy_async(&tile[0][t], &x[t], sizeof(float));
    __pipeline_commit();
    for (int k = 0; k < tiles; ++k) {
        const int next = (k + 1) * 64 + t;
        if (next < n) __pipeline_memcpy_async(&tile[(k + 1) % 2][t], &x[next], sizeof(float));
        __pipeline_commit();
        __syncthreads();
        if (k * 64 + 63 - t < n) sum += tile[k % 2][63 - t];  // expect: memory/uninitialized-read
        __syncthreads();
    }
    y[t] = sum;
}

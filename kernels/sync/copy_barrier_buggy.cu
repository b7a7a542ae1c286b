// Each thread waits for its own copies only, and reads elements that another thread copied.
#include <cuda_pipeline.h>

__global__ void copy_barrier_buggy(const float* x, float* y, int n) {
    __shared__ float tile[2][64];
    const int t = threadIdx.x, tiles = (n + 63) / 64;
    float sum = 0.0f;
    if (t < n) __pipeline_memcpy_async(&tile[0][t], &x[t], sizeof(float));
    __pipeline_commit();
    for (int k = 0; k < tiles; ++k) {
        const int next = (k + 1) * 64 + t;
        if (next < n) __pipeline_memcpy_async(&tile[(k + 1) % 2][t], &x[next], sizeof(float));
        __pipeline_commit();
        __pipeline_wait_prior(1);
        if (k * 64 + 63 - t < n) sum += tile[k % 2][63 - t];  // expect: memory/uninitialized-read | memory/shared-race
        __syncthreads();
    }
    y[t] = sum;
}

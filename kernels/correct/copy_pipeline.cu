// A tiled product with 16-byte asynchronous copies in three stages; elements outside of the matrix are zero. clean
#include <cuda_pipeline.h>

constexpr int TILE = 16, STAGES = 3;

__device__ void fetch(float* to, const float* from, int row, int col, int rows, int cols) {
    const int left = row < rows ? min(max(cols - col, 0), 4) : 0;
    __pipeline_memcpy_async(to, left ? from + row * cols + col : from, 16, 16 - 4 * left);
}

__global__ void copy_pipeline(const float* a, const float* b, float* c, int m, int n, int k) {
    __shared__ __align__(16) float left[STAGES][TILE][TILE], right[STAGES][TILE][TILE];
    const int t = threadIdx.x, r = t / 4, s = t % 4 * 4;
    const int row = blockIdx.y * TILE, col = blockIdx.x * TILE, tiles = (k + TILE - 1) / TILE;
    float sum[4] = {};
    for (int stage = 0; stage < STAGES - 1; ++stage) {
        if (stage < tiles) {
            fetch(&left[stage][r][s], a, row + r, stage * TILE + s, m, k);
            fetch(&right[stage][r][s], b, stage * TILE + r, col + s, k, n);
        }
        __pipeline_commit();
    }
    for (int tile = 0; tile < tiles; ++tile) {
        __pipeline_wait_prior(STAGES - 2);
        __syncthreads();
        const int next = tile + STAGES - 1, now = tile % STAGES;
        if (next < tiles) {
            fetch(&left[next % STAGES][r][s], a, row + r, next * TILE + s, m, k);
            fetch(&right[next % STAGES][r][s], b, next * TILE + r, col + s, k, n);
        }
        __pipeline_commit();
        for (int i = 0; i < TILE; ++i)
            for (int j = 0; j < 4; ++j) sum[j] += left[now][r][i] * right[now][i][s + j];
    }
    for (int j = 0; j < 4; ++j)
        if (row + r < m && col + s + j < n) c[(row + r) * n + col + s + j] = sum[j];
}

// Matrix product: tiles of 64 x 64 in shared memory, 4 x 4 results in registers per thread, any size. clean
__global__ void register_tile(const float* __restrict__ a, const float* __restrict__ b, float* __restrict__ c, int m,
                              int n, int k) {
    constexpr int TILE = 64, DEPTH = 8;
    __shared__ __align__(16) float left[DEPTH][TILE];
    __shared__ __align__(16) float right[DEPTH][TILE];
    const int top = blockIdx.y * TILE, first = blockIdx.x * TILE;
    const int row = threadIdx.x / 16 * 4, col = threadIdx.x % 16 * 4;
    float sum[4][4] = {};
    for (int base = 0; base < k; base += DEPTH) {
        for (int i = threadIdx.x; i < TILE * DEPTH; i += 256) {
            const int r = i / DEPTH, d = i % DEPTH;
            left[d][r] = top + r < m && base + d < k ? a[(top + r) * k + base + d] : 0.0f;
        }
        for (int i = threadIdx.x; i < TILE * DEPTH; i += 256) {
            const int d = i / TILE, q = i % TILE;
            right[d][q] = base + d < k && first + q < n ? b[(base + d) * n + first + q] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int d = 0; d < DEPTH; ++d) {
            const float4 u = *reinterpret_cast<const float4*>(&left[d][row]);
            const float4 v = *reinterpret_cast<const float4*>(&right[d][col]);
            const float us[4] = {u.x, u.y, u.z, u.w}, vs[4] = {v.x, v.y, v.z, v.w};
#pragma unroll
            for (int i = 0; i < 4; ++i) {
#pragma unroll
                for (int j = 0; j < 4; ++j) sum[i][j] += us[i] * vs[j];
            }
        }
        __syncthreads();
    }
    for (int i = 0; i < 4; ++i) {
        for (int j = 0; j < 4; ++j) {
            if (top + row + i < m && first + col + j < n) c[(top + row + i) * n + first + col + j] = sum[i][j];
        }
    }
}

// A block of 1000 threads, not a multiple of the warp size: the last warp's mask has its eight lanes. clean
__global__ void odd_block(const float* x, float* y, int cols) {
    __shared__ float warps[32];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    float sum = 0.0f;
    for (int j = t; j < cols; j += 1000) sum += x[blockIdx.x * cols + j];
    const int lanes = min(32, 1000 - warp * 32);
    const unsigned mask = lanes == 32 ? 0xffffffffu : (1u << lanes) - 1;
    for (int d = 16; d > 0; d /= 2) {
        const float other = __shfl_down_sync(mask, sum, d);
        if (lane + d < lanes) sum += other;
    }
    if (lane == 0) warps[warp] = sum;
    __syncthreads();
    if (t < 32) {
        sum = warps[t];
        for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
        if (t == 0) y[blockIdx.x] = sum;
    }
}

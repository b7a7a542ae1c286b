// Planted bug: the last steps of the reduction rely on the lanes of a warp executing in lockstep, which no GPU
// since Volta guarantees. The numbers come out right in nearly every run.
__global__ void row_sum(const float* x, float* y, int cols) {
    __shared__ float partial[128];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int c = t; c < cols; c += blockDim.x) sum += x[(size_t)blockIdx.x * cols + c];
    partial[t] = sum;
    __syncthreads();
    if (t < 64) partial[t] += partial[t + 64];
    __syncthreads();
    if (t < 32) {
        volatile float* warp = partial;
        for (int step = 32; step > 0; step /= 2) warp[t] += warp[t + step];  // expect: memory/shared-race
    }
    if (t == 0) y[blockIdx.x] = partial[0];
}

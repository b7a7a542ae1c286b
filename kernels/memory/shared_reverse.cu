// Reverses each block of 128 through shared memory; the last block is shorter. clean
__global__ void shared_reverse(const float* x, float* y, int n) {
    __shared__ float tile[128];
    int base = blockIdx.x * 128;
    int count = min(128, n - base);
    if (threadIdx.x < count) tile[threadIdx.x] = x[base + threadIdx.x];
    __syncthreads();
    if (threadIdx.x < count) y[base + threadIdx.x] = tile[count - 1 - threadIdx.x];
}

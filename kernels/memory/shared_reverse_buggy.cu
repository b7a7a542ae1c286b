// Reads the part of the tile that the shorter last block does not write.
__global__ void shared_reverse(const float* x, float* y, int n) {
    __shared__ float tile[128];
    int base = blockIdx.x * 128;
    int count = min(128, n - base);
    if (threadIdx.x < count) tile[threadIdx.x] = x[base + threadIdx.x];
    __syncthreads();
    if (threadIdx.x < count) y[base + threadIdx.x] = tile[127 - threadIdx.x];  // expect: memory/uninitialized-read
}

// Threads past the end return before the barrier.
__global__ void early_return(const float* x, float* y, int n) {
    __shared__ float tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    int count = min(128, n - (int)blockIdx.x * 128);
    if (i >= n) return;
    tile[threadIdx.x] = x[i];
    __syncthreads();  // expect: sync/barrier-divergence
    if (i < n) y[i] = tile[count - 1 - threadIdx.x];
}

// A barrier under a condition that is uniform in the block. clean
__global__ void divergent_barrier(const float* x, float* y, int n) {
    __shared__ float tile[128];
    int i = blockIdx.x * 128 + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    if (blockIdx.x % 2 == 0) {
        __syncthreads();
        tile[threadIdx.x] *= 3.0f;
    } else {
        tile[threadIdx.x] *= 3.0f;
    }
    if (i < n) y[i] = tile[threadIdx.x];
}

// The right halo is never loaded.
__global__ void halo(const float* x, float* y, int n) {
    __shared__ float tile[128 + 4];
    int base = blockIdx.x * 128;
    for (int t = threadIdx.x; t < 128; t += blockDim.x) {
        int j = base + t - 2;
        tile[t] = j >= 0 && j < n ? x[j] : 0.0f;
    }
    __syncthreads();
    int i = base + threadIdx.x;
    if (i < n) {
        float sum = 0.0f;
        for (int k = 0; k < 5; ++k) sum += tile[threadIdx.x + k];  // expect: memory/uninitialized-read
        y[i] = sum;
    }
}

// A loop with barriers and the same trip count for every thread of the block. clean
__global__ void strided_barrier(const float* x, float* y, int n) {
    __shared__ float tile[64];
    const int t = threadIdx.x;
    for (int base = 0; base < n; base += 64) {
        const int i = base + t, count = min(64, n - base);
        if (i < n) tile[t] = x[i];
        __syncthreads();
        if (i < n) y[i] = tile[count - 1 - t];
        __syncthreads();
    }
}

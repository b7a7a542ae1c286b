// A loop with barriers that every thread of the block goes through equally often. clean
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

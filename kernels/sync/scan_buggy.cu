// Scan that reads and writes in one phase. expect-somewhere: numeric/tolerance-exceeded
__global__ void scan(const float* x, float* y, int n) {
    __shared__ float a[128];
    int t = threadIdx.x;
    a[t] = t < n ? x[t] : 0.0f;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        if (t >= d) a[t] += a[t - d];  // expect: memory/shared-race
        __syncthreads();
    }
    if (t < n) y[t] = a[t];
}

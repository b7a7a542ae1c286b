// Hillis-Steele scan with a barrier between reading and writing. clean
__global__ void scan(const float* x, float* y, int n) {
    __shared__ float a[128];
    int t = threadIdx.x;
    a[t] = t < n ? x[t] : 0.0f;
    __syncthreads();
    for (int d = 1; d < 128; d *= 2) {
        float v = t >= d ? a[t - d] : 0.0f;
        __syncthreads();
        a[t] += v;
        __syncthreads();
    }
    if (t < n) y[t] = a[t];
}

// Threads exit after the last barrier. clean
__global__ void late_exit(const float* x, float* y, int n) {
    __shared__ float tile[128];
    const int i = blockIdx.x * 128 + threadIdx.x;
    tile[threadIdx.x] = i < n ? x[i] : 0.0f;
    __syncthreads();
    if (i >= n) return;
    const int count = min(128, n - static_cast<int>(blockIdx.x) * 128);
    y[i] = tile[count - 1 - threadIdx.x];
}

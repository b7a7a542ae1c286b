// No branch around the load: the index is clamped to the buffer, and the result used only where it is valid. clean
__global__ void clamped_load(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float here = x[min(i, n - 1)];
    const float before = x[max(min(i, n) - 1, 0)];
    const float after = x[min(i + 1, n - 1)];
    if (i < n) y[i] = 0.25f * before + 0.5f * here + 0.25f * after;
}

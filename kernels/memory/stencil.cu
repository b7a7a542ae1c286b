// Three-point stencil with clamped borders. clean
__global__ void stencil(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int left = i > 0 ? i - 1 : 0;
    int right = i + 1 < n ? i + 1 : n - 1;
    y[i] = 0.25f * x[left] + 0.5f * x[i] + 0.25f * x[right];
}

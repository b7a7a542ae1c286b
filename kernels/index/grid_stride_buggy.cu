// The stride is one too large: elements are skipped. expect-somewhere: numeric/unwritten-output
__global__ void grid_stride(const float* x, float* y, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += (blockDim.x + 1) * gridDim.x) {
        y[i] = 3.0f * x[i];
    }
}

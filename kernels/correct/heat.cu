// Five-point stencil in two dimensions, borders kept. clean
__global__ void heat(const float* x, float* y, int height, int width) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x, r = blockIdx.y * blockDim.y + threadIdx.y;
    if (c >= width || r >= height) return;
    const int i = r * width + c;
    if (r == 0 || c == 0 || r == height - 1 || c == width - 1) {
        y[i] = x[i];
        return;
    }
    y[i] = x[i] + 0.2f * (x[i - 1] + x[i + 1] + x[i - width] + x[i + width] - 4.0f * x[i]);
}

// Maximum over windows of 2 x 2, with partial windows at the edges. clean
__global__ void max_pool(const float* x, float* y, int height, int width) {
    const int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    const int rows = (height + 1) / 2, cols = (width + 1) / 2;
    if (r >= rows || c >= cols) return;
    float top = -INFINITY;
    for (int i = 2 * r; i < min(2 * r + 2, height); ++i) {
        for (int j = 2 * c; j < min(2 * c + 2, width); ++j) top = fmaxf(top, x[i * width + j]);
    }
    y[r * cols + c] = top;
}

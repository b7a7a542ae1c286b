// The partial windows extend into the next row, and past the last one. expect-somewhere: memory/out-of-bounds | numeric/tolerance-exceeded
__global__ void max_pool(const float* x, float* y, int height, int width) {
    const int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    const int rows = (height + 1) / 2, cols = (width + 1) / 2;
    if (r >= rows || c >= cols) return;
    float top = -INFINITY;
    for (int i = 2 * r; i < 2 * r + 2; ++i) {
        for (int j = 2 * c; j < 2 * c + 2; ++j) top = fmaxf(top, x[i * width + j]);
    }
    y[r * cols + c] = top;
}

// Row maximum that ignores NaN. clean
__global__ void row_max(const float* x, float* y, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = x[r * cols];
    for (int j = 1; j < cols; ++j) top = fmaxf(top, x[r * cols + j]);
    y[r] = top;
}

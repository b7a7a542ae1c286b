// Softmax, one thread per row, with the maximum subtracted. clean
__global__ void row_softmax(const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < cols; ++j) top = fmaxf(top, x[r * cols + j]);
    for (int j = 0; j < cols; ++j) sum += expf(x[r * cols + j] - top);
    for (int j = 0; j < cols; ++j) y[r * cols + j] = expf(x[r * cols + j] - top) / sum;
}

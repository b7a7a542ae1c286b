// Rows to mean 0 and variance 1 without an epsilon: for constant rows it divides zero by zero.
__global__ void standardize(const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float mean = 0.0f, squares = 0.0f;
    for (int j = 0; j < cols; ++j) mean += x[r * cols + j];
    mean /= cols;
    for (int j = 0; j < cols; ++j) squares += (x[r * cols + j] - mean) * (x[r * cols + j] - mean);
    const float scale = rsqrtf(squares / cols);
    for (int j = 0; j < cols; ++j) y[r * cols + j] = (x[r * cols + j] - mean) * scale;  // expect: numeric/nan | numeric/tolerance-exceeded
}

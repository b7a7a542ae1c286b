// Divides by one less than the count.
__global__ void row_variance(const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float mean = 0.0f, squares = 0.0f;
    for (int j = 0; j < cols; ++j) mean += x[r * cols + j];
    mean /= cols;
    for (int j = 0; j < cols; ++j) squares += (x[r * cols + j] - mean) * (x[r * cols + j] - mean);
    y[r] = squares / (cols - 1);  // expect: numeric/tolerance-exceeded | numeric/nan
}

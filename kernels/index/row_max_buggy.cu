// The maximum starts at 0: wrong for rows of negative numbers.
__global__ void row_max(const float* x, float* y, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = 0.0f;
    for (int j = 0; j < cols; ++j) top = fmaxf(top, x[r * cols + j]);
    y[r] = top;  // expect: numeric/tolerance-exceeded
}

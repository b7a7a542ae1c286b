// Stops at the first negative element instead of skipping it.
__global__ void skip_negative(const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int j = 0; j < cols; ++j) {
        if (x[r * cols + j] < 0.0f) break;
        sum += x[r * cols + j];
    }
    y[r] = sum;  // expect: numeric/tolerance-exceeded
}

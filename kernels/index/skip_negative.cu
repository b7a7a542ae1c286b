// Sums the positive elements and skips the others. clean
__global__ void skip_negative(const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int j = 0; j < cols; ++j) {
        if (x[r * cols + j] < 0.0f) continue;
        sum += x[r * cols + j];
    }
    y[r] = sum;
}

// The sum is not reset for the thread's next row.
__global__ void row_loop(const float* x, float* y, int rows, int cols) {
    float sum = 0.0f;
    for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += gridDim.x * blockDim.x) {
        for (int j = 0; j < cols; ++j) sum += x[r * cols + j];
        y[r] = sum;  // expect: numeric/tolerance-exceeded
    }
}

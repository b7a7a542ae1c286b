// One thread sums several rows, each from zero. clean
__global__ void row_loop(const float* x, float* y, int rows, int cols) {
    for (int r = blockIdx.x * blockDim.x + threadIdx.x; r < rows; r += gridDim.x * blockDim.x) {
        float sum = 0.0f;
        for (int j = 0; j < cols; ++j) sum += x[r * cols + j];
        y[r] = sum;
    }
}

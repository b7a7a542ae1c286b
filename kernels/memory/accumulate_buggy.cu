// Adds to an uninitialised output.
__global__ void accumulate(const float* x, float* y, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    for (int j = 0; j < cols; ++j) {
        y[r] += x[r * cols + j];  // expect: memory/uninitialized-read
    }
}

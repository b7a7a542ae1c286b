// Assumes that the row stride is the width. expect-somewhere: numeric/tolerance-exceeded | memory/uninitialized-read
__global__ void pitched(const float* x, float* y, int rows, int cols, int pitch) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
        if (c < cols) y[r * cols + c] = 3.0f * x[static_cast<size_t>(r) * cols + c];
    }
}

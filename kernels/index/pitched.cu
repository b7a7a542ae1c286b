// A matrix with a pitch: the row stride may be larger than the width. clean
__global__ void pitched(const float* x, float* y, int rows, int cols, int pitch) {
    const int c = blockIdx.x * blockDim.x + threadIdx.x;
    for (int r = blockIdx.y; r < rows; r += gridDim.y) {
        if (c < cols) y[r * cols + c] = 3.0f * x[static_cast<size_t>(r) * pitch + c];
    }
}

// Far more blocks than elements; most of them do nothing. clean
__global__ void large_grid(const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.y * blockDim.y + threadIdx.y, c = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows && c < cols) y[r * cols + c] = 3.0f * x[r * cols + c];
}

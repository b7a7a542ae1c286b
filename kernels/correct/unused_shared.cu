// A shared tile with padding and a partial last row that are neither written nor read. clean
__global__ void unused_shared(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[16][24];
    const int r = blockIdx.y * 16 + threadIdx.y, c = blockIdx.x * 16 + threadIdx.x;
    const bool inside = r < rows && c < cols;
    if (inside) tile[threadIdx.y][threadIdx.x + 3] = x[r * cols + c];
    __syncthreads();
    const int tile_rows = min(16, rows - static_cast<int>(blockIdx.y) * 16);
    if (inside) y[r * cols + c] = tile[tile_rows - 1 - threadIdx.y][threadIdx.x + 3];
}

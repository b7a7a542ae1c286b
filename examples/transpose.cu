// Transpose through a tile in shared memory; the extra column avoids bank conflicts.
constexpr int TILE = 32;

__global__ void transpose(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[TILE][TILE + 1];
    int c = blockIdx.x * TILE + threadIdx.x;
    int r = blockIdx.y * TILE + threadIdx.y;
    if (r < rows && c < cols) tile[threadIdx.y][threadIdx.x] = x[(size_t)r * cols + c];
    __syncthreads();
    int to_c = blockIdx.y * TILE + threadIdx.x;
    int to_r = blockIdx.x * TILE + threadIdx.y;
    if (to_r < cols && to_c < rows) y[(size_t)to_r * rows + to_c] = tile[threadIdx.x][threadIdx.y];
}

// The row stride of the output is that of the input: correct only for square matrices.
__global__ void transpose(const float* x, float* y, int rows, int cols) {
    __shared__ float tile[16][17];
    int c = blockIdx.x * 16 + threadIdx.x, r = blockIdx.y * 16 + threadIdx.y;
    if (r < rows && c < cols) tile[threadIdx.y][threadIdx.x] = x[r * cols + c];
    __syncthreads();
    int tr = blockIdx.x * 16 + threadIdx.y, tc = blockIdx.y * 16 + threadIdx.x;
    if (tr < cols && tc < rows) y[tr * cols + tc] = tile[threadIdx.x][threadIdx.y];  // expect: memory/out-of-bounds | numeric/tolerance-exceeded | numeric/unwritten-output
}

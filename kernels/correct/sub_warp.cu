// Shuffles of width 8: four rows in each warp. clean
__global__ void sub_warp(const float* x, float* y, int rows, int cols) {
    const int r = (blockIdx.x * blockDim.x + threadIdx.x) / 8, lane = threadIdx.x % 8;
    float sum = 0.0f;
    for (int j = lane; j < cols && r < rows; j += 8) sum += x[r * cols + j];
    for (int d = 4; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d, 8);
    if (lane == 0 && r < rows) y[r] = sum;
}

// The axes of the right tile are swapped in the load from shared memory.
__global__ void gram(const float* a, float* c, int m, int k) {
    __shared__ float left[16][17], right[16][17];
    const int tx = threadIdx.x, ty = threadIdx.y;
    const int row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx, other = blockIdx.x * 16 + ty;
    float sum = 0.0f;
    for (int base = 0; base < k; base += 16) {
        left[ty][tx] = row < m && base + tx < k ? a[row * k + base + tx] : 0.0f;
        right[ty][tx] = other < m && base + tx < k ? a[other * k + base + tx] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; ++i) sum += left[ty][i] * right[i][tx];
        __syncthreads();
    }
    if (row < m && col < m) c[row * m + col] = sum;  // expect: numeric/tolerance-exceeded
}

// 3 x 3 convolution with zero padding; the tile has a halo of one element. clean
__global__ void conv2d(const float* x, const float* w, float* y, int height, int width) {
    __shared__ float tile[10][34];
    const int top = blockIdx.y * 8 - 1, left = blockIdx.x * 32 - 1;
    for (int k = threadIdx.y * 32 + threadIdx.x; k < 10 * 34; k += 256) {
        const int r = top + k / 34, c = left + k % 34;
        tile[k / 34][k % 34] = r >= 0 && r < height && c >= 0 && c < width ? x[r * width + c] : 0.0f;
    }
    __syncthreads();
    const int r = top + 1 + threadIdx.y, c = left + 1 + threadIdx.x;
    if (r >= height || c >= width) return;
    float sum = 0.0f;
    for (int i = 0; i < 3; ++i) {
        for (int j = 0; j < 3; ++j) sum += w[3 * i + j] * tile[threadIdx.y + i][threadIdx.x + j];
    }
    y[r * width + c] = sum;
}

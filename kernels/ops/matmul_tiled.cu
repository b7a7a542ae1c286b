// Matrix product over 16 x 16 tiles in shared memory. clean
__global__ void matmul_tiled(const float* a, const float* b, float* c, int M, int N, int K) {
    __shared__ float as[16][16];
    __shared__ float bs[16][16];
    int row = blockIdx.y * 16 + threadIdx.y;
    int col = blockIdx.x * 16 + threadIdx.x;
    float acc = 0.0f;
    for (int base = 0; base < K; base += 16) {
        int ka = base + threadIdx.x, kb = base + threadIdx.y;
        as[threadIdx.y][threadIdx.x] = row < M && ka < K ? a[row * K + ka] : 0.0f;
        bs[threadIdx.y][threadIdx.x] = kb < K && col < N ? b[kb * N + col] : 0.0f;
        __syncthreads();
        for (int k = 0; k < 16; ++k) acc += as[threadIdx.y][k] * bs[k][threadIdx.x];
        __syncthreads();
    }
    if (row < M && col < N) c[row * N + col] = acc;
}

// Matrix product, one element per thread. clean
__global__ void matmul(const float* a, const float* b, float* c, int M, int N, int K) {
    int row = blockIdx.y * blockDim.y + threadIdx.y;
    int col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row < M && col < N) {
        float acc = 0.0f;
        for (int k = 0; k < K; ++k) acc += a[row * K + k] * b[k * N + col];
        c[row * N + col] = acc;
    }
}

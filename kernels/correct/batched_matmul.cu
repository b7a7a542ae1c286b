// Products of many small matrices, one per block in z; two outputs per thread. clean
__global__ void batched_matmul(const float* a, const float* b, float* c, int m, int n, int k) {
    a += blockIdx.z * m * k;
    b += blockIdx.z * k * n;
    c += blockIdx.z * m * n;
    const int row = 2 * (blockIdx.y * blockDim.y + threadIdx.y), col = blockIdx.x * blockDim.x + threadIdx.x;
    if (row >= m || col >= n) return;
    const bool two = row + 1 < m;
    float first = 0.0f, second = 0.0f;
    for (int i = 0; i < k; ++i) {
        const float right = b[i * n + col];
        first += a[row * k + i] * right;
        if (two) second += a[(row + 1) * k + i] * right;
    }
    c[row * n + col] = first;
    if (two) c[(row + 1) * n + col] = second;
}

// log_softmax with the sum in registers and the maximum in shared memory. clean
__global__ void log_softmax(const float* x, float* y, int cols) {
    __shared__ float top, total;
    const float* row = x + blockIdx.x * cols;
    if (threadIdx.x < 32) {
        float m = -INFINITY;
        for (int j = threadIdx.x; j < cols; j += 32) m = fmaxf(m, row[j]);
        for (int d = 16; d > 0; d /= 2) m = fmaxf(m, __shfl_xor_sync(0xffffffffu, m, d));
        float s = 0.0f;
        for (int j = threadIdx.x; j < cols; j += 32) s += expf(row[j] - m);
        for (int d = 16; d > 0; d /= 2) s += __shfl_xor_sync(0xffffffffu, s, d);
        if (threadIdx.x == 0) {
            top = m;
            total = logf(s);
        }
    }
    __syncthreads();
    for (int j = threadIdx.x; j < cols; j += blockDim.x) y[blockIdx.x * cols + j] = row[j] - top - total;
}

// Difference at distance four; the guard adds and cannot wrap. clean
__global__ void unsigned_guard(const float* x, float* y, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i + 4 < n ? x[i + 4] - x[i] : 0.0f;
}

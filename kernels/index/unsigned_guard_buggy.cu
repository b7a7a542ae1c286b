// The guard subtracts: below four elements it wraps around, and all threads pass.
__global__ void unsigned_guard(const float* x, float* y, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = i < n - 4 ? x[i + 4] - x[i] : 0.0f;  // expect: memory/out-of-bounds
}

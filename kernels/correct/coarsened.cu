// Four elements per thread, a block apart, all loaded before the first store. clean
__global__ void coarsened(const float* x, float* y, int n) {
    const int base = blockIdx.x * 4 * 128 + threadIdx.x;
    float v[4];
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (base + k * 128 < n) v[k] = x[base + k * 128];
    }
#pragma unroll
    for (int k = 0; k < 4; ++k) {
        if (base + k * 128 < n) y[base + k * 128] = 3.0f * v[k];
    }
}

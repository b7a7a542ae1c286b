// A warp sum with all lanes in the mask of the shuffles. clean
__global__ void half_mask(const float* x, float* y, int n) {
    const int i = blockIdx.x * 32 + threadIdx.x;
    float v = i < n ? x[i] : 0.0f;
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (threadIdx.x == 0) y[blockIdx.x] = v;
}

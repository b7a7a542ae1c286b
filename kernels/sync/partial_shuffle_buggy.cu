// Lanes without an element exit, and other lanes read from them.
__global__ void partial_shuffle(const float* x, float* y, int cols) {
    int t = threadIdx.x;
    if (t >= cols) return;
    float v = x[blockIdx.x * cols + t];
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);  // expect: sync/missing-warp-mask
    if (t == 0) y[blockIdx.x] = v;
}

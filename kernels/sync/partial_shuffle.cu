// Every lane executes the shuffles, also those without an element. clean
__global__ void partial_shuffle(const float* x, float* y, int cols) {
    int t = threadIdx.x;
    float v = t < cols ? x[blockIdx.x * cols + t] : 0.0f;
    for (int d = 16; d > 0; d /= 2) v += __shfl_down_sync(0xffffffffu, v, d);
    if (t == 0) y[blockIdx.x] = v;
}

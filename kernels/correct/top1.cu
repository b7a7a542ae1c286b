// Index of the first maximum: value and index are shuffled together, and ties take the lower index. clean
__global__ void top1(const float* x, int* y, int cols) {
    float best = -INFINITY;
    int where = 0x7fffffff;
    for (int j = threadIdx.x; j < cols; j += 32) {
        const float v = x[blockIdx.x * cols + j];
        if (v > best || where == 0x7fffffff) {
            best = v;
            where = j;
        }
    }
    for (int d = 16; d > 0; d /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, best, d);
        const int there = __shfl_xor_sync(0xffffffffu, where, d);
        if (other > best || (other == best && there < where)) {
            best = other;
            where = there;
        }
    }
    if (threadIdx.x == 0) y[blockIdx.x] = where;
}

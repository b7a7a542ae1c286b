// Merges partial variances as if all lanes had the same number of elements.
struct Moments {
    float count, mean, m2;
};

__device__ Moments merge(Moments a, Moments b) {
    const float count = a.count + b.count;
    if (count == 0.0f) return a;
    const float delta = b.mean - a.mean;
    return {count, 0.5f * (a.mean + b.mean), a.m2 + b.m2 + delta * delta * (0.25f * count)};
}

__global__ void welford(const float* x, float* y, int cols) {
    Moments mine = {0.0f, 0.0f, 0.0f};
    for (int j = threadIdx.x; j < cols; j += 32) {
        const float v = x[blockIdx.x * cols + j];
        mine.count += 1.0f;
        const float delta = v - mine.mean;
        mine.mean += delta / mine.count;
        mine.m2 += delta * (v - mine.mean);
    }
    for (int d = 16; d > 0; d /= 2) {
        const Moments other = {__shfl_xor_sync(0xffffffffu, mine.count, d), __shfl_xor_sync(0xffffffffu, mine.mean, d),
                               __shfl_xor_sync(0xffffffffu, mine.m2, d)};
        mine = merge(mine, other);
    }
    if (threadIdx.x == 0) y[blockIdx.x] = mine.m2 / cols;  // expect: numeric/tolerance-exceeded
}

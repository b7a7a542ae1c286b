// Dropout whose mask is a hash of seed and index: unsigned arithmetic with intended wrap-around. clean
__device__ unsigned hash(unsigned v) {
    v ^= v >> 16;
    v *= 0x7feb352du;
    v ^= v >> 15;
    v *= 0x846ca68bu;
    return v ^ (v >> 16);
}

__global__ void dropout(const float* x, float* y, unsigned seed, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = hash(seed + 0x9e3779b9u * i) < 0x40000000u ? 0.0f : x[i] * (4.0f / 3.0f);
}

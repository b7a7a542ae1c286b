// A loop counter wide enough for its bound. clean
__global__ void byte_loop(const float* x, float* y) {
    __shared__ float s[256];
    for (int k = threadIdx.x; k < 256; k += 32) s[k] = x[blockIdx.x * 256 + k];
    __syncwarp();
    float sum = 0.0f;
    for (unsigned short k = threadIdx.x; k < 256; k += 32) sum += s[k];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (threadIdx.x == 0) y[blockIdx.x] = sum;
}

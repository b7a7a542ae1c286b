// Warp-synchronous reduction without __syncwarp.
__global__ void warp_tail(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 32 + t];
    for (int d = 16; d > 0; d /= 2) {
        if (t < d) s[t] += s[t + d];  // expect: memory/shared-race
    }
    if (t == 0) y[blockIdx.x] = s[0];
}

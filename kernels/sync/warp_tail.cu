// Warp-synchronous reduction with __syncwarp. clean
__global__ void warp_tail(const float* x, float* y) {
    __shared__ float s[32];
    int t = threadIdx.x;
    s[t] = x[blockIdx.x * 32 + t];
    __syncwarp();
    for (int d = 16; d > 0; d /= 2) {
        float v = t < d ? s[t + d] : 0.0f;
        __syncwarp();
        s[t] += v;
        __syncwarp();
    }
    if (t == 0) y[blockIdx.x] = s[0];
}

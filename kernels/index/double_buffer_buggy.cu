// Double buffering that reads the half being written. expect-somewhere: memory/uninitialized-read | numeric/tolerance-exceeded
__global__ void double_buffer(const float* x, float* y, int n) {
    __shared__ float tile[2][64];
    const int t = threadIdx.x;
    float sum = 0.0f;
    int now = 0;
    tile[now][t] = t < n ? x[t] : 0.0f;
    for (int base = 0; base < n; base += 64) {
        __syncthreads();
        const int next = base + 64 + t;
        tile[1 - now][t] = next < n ? x[next] : 0.0f;
        sum += tile[1 - now][63 - t];  // expect: memory/shared-race
        now = 1 - now;
    }
    y[t] = sum;
}

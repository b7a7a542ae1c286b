// The barrier waits for 96 threads, and only 64 arrive. expect-somewhere: sync/deadlock | sync/barrier-divergence
__global__ void handoff(const float* x, float* y, int n) {
    __shared__ float tile[32];
    const int lane = threadIdx.x % 32, i = blockIdx.x * 32 + lane;
    if (threadIdx.x < 32) {
        tile[lane] = i < n ? x[i] : 0.0f;
        asm volatile("bar.arrive 1, 96;" ::: "memory");
    } else {
        asm volatile("bar.sync 1, 96;" ::: "memory");
        if (i < n) y[i] = 3.0f * tile[lane];
    }
}

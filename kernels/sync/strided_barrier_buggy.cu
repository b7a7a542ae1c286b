// A loop with barriers and a trip count that varies between threads.
__global__ void strided_barrier(const float* x, float* y, int n) {
    __shared__ float tile[64];
    const int t = threadIdx.x;
    for (int i = t; i < n; i += 64) {
        const int count = min(64, n - (i - t));
        tile[t] = x[i];
        __syncthreads();  // expect: sync/barrier-divergence
        y[i] = tile[count - 1 - t];
        __syncthreads();
    }
}

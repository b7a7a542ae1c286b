// Barriers with reductions: count, and, or. clean
__global__ void barrier_votes(const int* x, int* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const int v = i < n ? x[i] : 0;
    const int positive = __syncthreads_count(v > 0);
    const int large = __syncthreads_or(v > 90);
    const int all = __syncthreads_and(v > -99);
    if (threadIdx.x == 0) y[blockIdx.x] = 4 * positive + 2 * (large != 0) + (all != 0);
}

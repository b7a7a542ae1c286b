// Inclusive scan in one launch: every block waits for its predecessor's total, in the order of tickets. clean
__global__ void chained_scan(const int* x, int* y, int* ticket, int* totals, int* ready, int n) {
    __shared__ int shared[64];
    __shared__ int block, before;
    const int t = threadIdx.x;
    if (t == 0) block = atomicAdd(ticket, 1);
    __syncthreads();
    const int i = block * 64 + t;
    shared[t] = i < n ? x[i] : 0;
    __syncthreads();
    for (int d = 1; d < 64; d *= 2) {
        const int v = t >= d ? shared[t - d] : 0;
        __syncthreads();
        shared[t] += v;
        __syncthreads();
    }
    if (t == 0) {
        before = 0;
        if (block > 0) {
            while (atomicAdd(&ready[block - 1], 0) == 0) {
            }
            __threadfence();
            before = *static_cast<volatile int*>(&totals[block - 1]);
        }
        *static_cast<volatile int*>(&totals[block]) = before + shared[63];
        __threadfence();
        atomicExch(&ready[block], 1);
    }
    __syncthreads();
    if (i < n) y[i] = before + shared[t];
}

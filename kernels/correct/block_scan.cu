// Exclusive prefix sums: warp scans by shuffles, then a scan over the warps. clean
__global__ void block_scan(const int* x, int* y, int cols) {
    __shared__ int warps[8];
    const int t = threadIdx.x, lane = t % 32, warp = t / 32;
    const int v = t < cols ? x[blockIdx.x * cols + t] : 0;
    int sum = v;
    for (int d = 1; d < 32; d *= 2) {
        const int other = __shfl_up_sync(0xffffffffu, sum, d);
        if (lane >= d) sum += other;
    }
    if (lane == 31) warps[warp] = sum;
    __syncthreads();
    if (warp == 0) {
        int total = lane < 8 ? warps[lane] : 0;
        for (int d = 1; d < 8; d *= 2) {
            const int other = __shfl_up_sync(0xffffffffu, total, d, 8);
            if (lane % 8 >= d) total += other;
        }
        if (lane < 8) warps[lane] = total;
    }
    __syncthreads();
    if (t < cols) y[blockIdx.x * cols + t] = sum - v + (warp > 0 ? warps[warp - 1] : 0);
}

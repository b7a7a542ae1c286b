// Counts with one atomic per group of converged lanes. clean
__global__ void active_lanes(const int* x, int* count, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n || x[i] % 3 != 0) return;
    const unsigned mask = __activemask();
    if (threadIdx.x % 32 == __ffs(mask) - 1) atomicAdd(count, __popc(mask));
}

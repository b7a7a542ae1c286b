// Lanes with the same bin elect a leader that adds for all of them. clean
__global__ void match_bins(const int* x, int* bins, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned active = __ballot_sync(0xffffffffu, i < n);
    if (i >= n) return;
    const unsigned same = __match_any_sync(active, x[i]);
    if (threadIdx.x % 32 == __ffs(same) - 1) atomicAdd(&bins[x[i]], __popc(same));
}

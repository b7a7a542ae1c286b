// Number of positive values: a ballot and one population count per warp. clean
__global__ void count_set(const int* x, int* count, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const unsigned votes = __ballot_sync(0xffffffffu, i < n && x[i] > 0);
    if (threadIdx.x % 32 == 0 && votes != 0) atomicAdd(count, __popc(votes));
}

// The whole warp adds to the segment of its first lane: correct only for long segments.
__global__ void segment_sum(const int* x, const int* segment, int* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&y[segment[i / 32 * 32]], x[i]);  // expect: numeric/tolerance-exceeded
}

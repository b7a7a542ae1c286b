// Sums by segment: every element is added to the sum of its own segment. clean
__global__ void segment_sum(const int* x, const int* segment, int* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(&y[segment[i]], x[i]);
}

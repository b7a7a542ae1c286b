// Sum by floating-point atomics: their order is unspecified. clean
__global__ void atomic_total(const float* x, float* total, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}

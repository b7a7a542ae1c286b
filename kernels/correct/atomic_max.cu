// Maximum of floats by compare-and-swap on their bits. clean
__device__ void atomic_max(float* address, float value) {
    int* bits = reinterpret_cast<int*>(address);
    int seen = *bits;
    while (value > __int_as_float(seen)) {
        const int before = atomicCAS(bits, seen, __float_as_int(value));
        if (before == seen) break;
        seen = before;
    }
}

__global__ void atomic_max_kernel(const float* x, float* top, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomic_max(top, x[i]);
}

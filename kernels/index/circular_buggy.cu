// The remainder of a negative number is negative.
__global__ void circular(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] - x[(i - 1) % n];  // expect: memory/out-of-bounds
}

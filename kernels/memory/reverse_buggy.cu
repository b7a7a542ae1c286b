// Reversal that starts one past the end.
__global__ void reverse(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[n - i];  // expect: memory/out-of-bounds
}

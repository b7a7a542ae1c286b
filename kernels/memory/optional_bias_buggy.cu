// Dereferences a null pointer.
__device__ const float* bias_of(const float* x, int n) { return n > 100000 ? x : nullptr; }

__global__ void optional_bias(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float* bias = bias_of(x, n);
    if (i < n) y[i] = 3.0f * x[i] + bias[i];  // expect: memory/null-pointer | memory/out-of-bounds
}

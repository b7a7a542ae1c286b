// A pointer that is compared with null before it is dereferenced. clean
__device__ const float* bias_of(const float* x, int n) { return n > 100000 ? x : nullptr; }

__global__ void optional_bias(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float* bias = bias_of(x, n);
    if (i < n) y[i] = 3.0f * x[i] + (bias ? bias[i] : 0.0f);
}

// SiLU compiled with --use_fast_math: approximate division and exponential. clean
__global__ void fast_math(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] / (1.0f + expf(-x[i]));
}

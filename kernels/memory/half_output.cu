// Two elements per thread. clean
__global__ void half_output(const float* x, float* y, int n) {
    int i = 2 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (i < n) y[i] = 3.0f * x[i];
    if (i + 1 < n) y[i + 1] = 3.0f * x[i + 1];
}

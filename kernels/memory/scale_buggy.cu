// The tail guard is missing.
__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    y[i] = 3.0f * x[i];  // expect: memory/out-of-bounds
}

// A guard that one thread too many passes.
__global__ void off_by_one(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) {
        y[i] = 3.0f * x[i];  // expect: memory/out-of-bounds
    }
}

// A guard that exactly n threads pass. clean
__global__ void off_by_one(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n - 1) {
        y[i] = 3.0f * x[i];
    }
}

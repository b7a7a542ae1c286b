// Load and store under the same guard. clean
__global__ void guarded_store(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float v = i < n ? x[i] : 0.0f;
    if (i < n) y[i] = 3.0f * v;
}

// The load is guarded, the store is not.
__global__ void guarded_store(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    const float v = i < n ? x[i] : 0.0f;
    y[i] = 3.0f * v;  // expect: memory/out-of-bounds
}

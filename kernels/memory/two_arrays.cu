// Two arrays in dynamic shared memory, and a launch with memory for both. clean
__global__ void two_arrays(const float* x, const float* w, float* y, int n) {
    extern __shared__ float storage[];
    float* xs = storage;
    float* ws = storage + blockDim.x;
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    xs[threadIdx.x] = i < n ? x[i] : 0.0f;
    ws[threadIdx.x] = i < n ? w[i] : 0.0f;
    __syncthreads();
    const int mirror = blockDim.x - 1 - threadIdx.x;
    if (i < n) y[i] = xs[threadIdx.x] * ws[threadIdx.x] + xs[mirror] * ws[mirror];
}

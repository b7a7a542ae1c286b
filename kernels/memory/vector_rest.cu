// Pairs of elements, and a scalar remainder. clean
__global__ void vector_rest(const float* x, float* y, int n) {
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n / 2; j += gridDim.x * blockDim.x) {
        const float2 v = reinterpret_cast<const float2*>(x)[j];
        reinterpret_cast<float2*>(y)[j] = make_float2(3.0f * v.x, 3.0f * v.y);
    }
    if (n % 2 == 1 && blockIdx.x == 0 && threadIdx.x == 0) y[n - 1] = 3.0f * x[n - 1];
}

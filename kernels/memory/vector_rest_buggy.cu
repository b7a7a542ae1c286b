// Pairs of elements without the scalar remainder. expect-somewhere: numeric/unwritten-output
__global__ void vector_rest(const float* x, float* y, int n) {
    for (int j = blockIdx.x * blockDim.x + threadIdx.x; j < n / 2; j += gridDim.x * blockDim.x) {
        const float2 v = reinterpret_cast<const float2*>(x)[j];
        reinterpret_cast<float2*>(y)[j] = make_float2(3.0f * v.x, 3.0f * v.y);
    }
}

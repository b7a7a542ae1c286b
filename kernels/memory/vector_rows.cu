// float2 accesses only where the row is 8-byte aligned. clean
__global__ void vector_rows(const float* x, float* y, int cols) {
    const float* in = x + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    if (cols % 2 == 0) {
        for (int j = threadIdx.x; j < cols / 2; j += blockDim.x) {
            float2 v = reinterpret_cast<const float2*>(in)[j];
            reinterpret_cast<float2*>(out)[j] = make_float2(3.0f * v.x, 3.0f * v.y);
        }
    } else {
        for (int j = threadIdx.x; j < cols; j += blockDim.x) out[j] = 3.0f * in[j];
    }
}

// float4 accesses even where fewer than four elements remain.
__global__ void vector_tail(const float* x, float* y, int n) {
    int base = 4 * (blockIdx.x * blockDim.x + threadIdx.x);
    if (base < n) {
        float4 v = reinterpret_cast<const float4*>(x)[base / 4];  // expect: memory/out-of-bounds
        v.x *= 3.0f, v.y *= 3.0f, v.z *= 3.0f, v.w *= 3.0f;
        reinterpret_cast<float4*>(y)[base / 4] = v;
    } else {
        for (int i = base; i < n; ++i) y[i] = 3.0f * x[i];
    }
}

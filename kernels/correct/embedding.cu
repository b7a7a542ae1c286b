// Embedding lookup, four floats at a time. clean
__global__ void embedding(const float* table, const int* ids, float* y, int width) {
    const float4* row = reinterpret_cast<const float4*>(table + static_cast<size_t>(ids[blockIdx.x]) * width);
    float4* out = reinterpret_cast<float4*>(y + static_cast<size_t>(blockIdx.x) * width);
    for (int j = threadIdx.x; j < width / 4; j += blockDim.x) out[j] = row[j];
}

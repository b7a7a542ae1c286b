// int8 to float with a scale and a zero point per row, four bytes per load where they are aligned. clean
__global__ void dequantize(const signed char* q, const float* scale, const int* zero, float* y, int cols) {
    const signed char* row = q + blockIdx.x * cols;
    float* out = y + blockIdx.x * cols;
    const float s = scale[blockIdx.x];
    const int z = zero[blockIdx.x];
    const int whole = cols % 4 == 0 ? cols / 4 : 0;
    for (int j = threadIdx.x; j < whole; j += blockDim.x) {
        const char4 v = reinterpret_cast<const char4*>(row)[j];
        reinterpret_cast<float4*>(out)[j] = make_float4(s * (v.x - z), s * (v.y - z), s * (v.z - z), s * (v.w - z));
    }
    for (int j = 4 * whole + threadIdx.x; j < cols; j += blockDim.x) out[j] = s * (row[j] - z);
}

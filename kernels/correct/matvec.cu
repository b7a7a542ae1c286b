// Matrix times vector, a warp per row, float4 where the row is 16-byte aligned, and a scalar remainder. clean
__global__ void matvec(const float* a, const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.x * (blockDim.x / 32) + threadIdx.x / 32, lane = threadIdx.x % 32;
    if (r >= rows) return;
    const float* row = a + static_cast<size_t>(r) * cols;
    const int whole = cols % 4 == 0 ? cols / 4 : 0;
    float sum = 0.0f;
    for (int j = lane; j < whole; j += 32) {
        const float4 u = __ldg(reinterpret_cast<const float4*>(row) + j);
        const float4 v = __ldg(reinterpret_cast<const float4*>(x) + j);
        sum += u.x * v.x + u.y * v.y + u.z * v.z + u.w * v.w;
    }
    for (int j = 4 * whole + lane; j < cols; j += 32) sum += row[j] * x[j];
    for (int d = 16; d > 0; d /= 2) sum += __shfl_down_sync(0xffffffffu, sum, d);
    if (lane == 0) y[r] = sum;
}

// Compensated summation: a correction that is zero in exact arithmetic only. clean
__global__ void kahan(const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f, lost = 0.0f;
    for (int j = 0; j < cols; ++j) {
        const float v = x[r * cols + j] - lost, next = sum + v;
        lost = (next - sum) - v;
        sum = next;
    }
    y[r] = sum;
}

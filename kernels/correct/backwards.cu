// Suffix sums: a pointer starts one past the end of the row and is decremented. clean
__global__ void backwards(const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    const float* in = x + (r + 1) * cols;
    float* out = y + (r + 1) * cols;
    float sum = 0.0f;
    for (int j = cols; j-- > 0;) {
        sum += *--in;
        *--out = sum;
    }
}

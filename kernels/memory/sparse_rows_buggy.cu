// Uses the end mark of a row as a column.
__global__ void sparse_rows(const float* values, const int* columns, const float* x, float* y, int rows, int width) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int k = 0; k < width; ++k) {
        const int c = columns[r * width + k];
        sum += values[r * width + k] * x[c];  // expect: memory/out-of-bounds
        if (c < 0) break;
    }
    y[r] = sum;
}

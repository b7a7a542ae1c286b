// Sparse matrix (ELL) times vector; a column of -1 marks the end of a row. clean
__global__ void sparse_rows(const float* values, const int* columns, const float* x, float* y, int rows, int width) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float sum = 0.0f;
    for (int k = 0; k < width; ++k) {
        const int c = columns[r * width + k];
        if (c < 0) break;
        sum += values[r * width + k] * x[c];
    }
    y[r] = sum;
}

// Neighbours are not restricted to the row: the ends of a row use elements of the adjacent rows.
__global__ void blur_rows(const float* x, float* y, int rows, int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    float sum = x[i];
    int count = 1;
    if (i > 0) sum += x[i - 1], ++count;
    if (i + 1 < rows * cols) sum += x[i + 1], ++count;
    y[i] = sum / count;  // expect: numeric/tolerance-exceeded
}

// Mean of each element and its neighbours in the row; the ends have one neighbour. clean
__global__ void blur_rows(const float* x, float* y, int rows, int cols) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= rows * cols) return;
    const int c = i % cols;
    float sum = x[i];
    int count = 1;
    if (c > 0) sum += x[i - 1], ++count;
    if (c + 1 < cols) sum += x[i + 1], ++count;
    y[i] = sum / count;
}

// Row dot products in double precision. clean
__global__ void double_dot(const double* x, const double* w, double* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    double sum = 0.0;
    for (int j = 0; j < cols; ++j) sum = fma(x[r * cols + j], w[j], sum);
    y[r] = sum;
}

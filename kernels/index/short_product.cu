// First element of each row; the offset is computed in 32 bits. clean
__global__ void short_product(const float* x, float* y, short rows, short cols) {
    short r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        int offset = r * cols;
        y[r] = x[offset];
    }
}

// The offset of a row is narrowed to 16 bits.
__global__ void short_product(const float* x, float* y, short rows, short cols) {
    short r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r < rows) {
        short offset = r * cols;
        y[r] = x[offset];  // expect: memory/out-of-bounds
    }
}

// The entry after the last one of a table in constant memory.
__constant__ float levels[6] = {0.0f, 0.5f, 1.0f, 2.0f, 4.0f, 8.0f};

__global__ void table_end(const int* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = levels[x[i]] + levels[x[i] + 1];  // expect: memory/out-of-bounds
}

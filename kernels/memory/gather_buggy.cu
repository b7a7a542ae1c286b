// The index of the last entry's neighbour does not wrap around.
__global__ void gather(const float* table, const int* index, float* y, int n, int m) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = table[index[i]] + table[index[i] + 1];  // expect: memory/out-of-bounds
}

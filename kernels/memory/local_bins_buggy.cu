// Counts in a local array that is one bin too short.
__global__ void local_bins(const int* x, int* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    int bins[8];
    for (int k = 0; k < 8; ++k) bins[k] = 0;
    for (int j = 0; j < cols; ++j) ++bins[x[r * cols + j]];  // expect: memory/out-of-bounds
    int most = 0;
    for (int k = 0; k < 8; ++k) most = max(most, bins[k]);
    y[r] = most;
}

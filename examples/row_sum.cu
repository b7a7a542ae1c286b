// Planted bug: the tree reduction has no barrier between its steps.
__global__ void row_sum(const float* x, float* y, int cols) {
    __shared__ float partial[128];
    int t = threadIdx.x;
    float sum = 0.0f;
    for (int c = t; c < cols; c += blockDim.x) sum += x[(size_t)blockIdx.x * cols + c];
    partial[t] = sum;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2)
        if (t < step) partial[t] += partial[t + step];  // expect: memory/shared-race
    if (t == 0) y[blockIdx.x] = partial[0];
}

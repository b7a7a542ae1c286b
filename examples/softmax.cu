// Softmax over rows, one block per row; columns need not be a multiple of the block.
__global__ void softmax(const float* x, float* y, int cols) {
    __shared__ float partial[128];
    const float* row = x + (size_t)blockIdx.x * cols;
    int t = threadIdx.x;

    float largest = -INFINITY;
    for (int c = t; c < cols; c += blockDim.x) largest = fmaxf(largest, row[c]);
    partial[t] = largest;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (t < step) partial[t] = fmaxf(partial[t], partial[t + step]);
        __syncthreads();
    }
    largest = partial[0];
    __syncthreads();  // all threads have read the maximum before the sums overwrite it

    float sum = 0.0f;
    for (int c = t; c < cols; c += blockDim.x) sum += expf(row[c] - largest);
    partial[t] = sum;
    __syncthreads();
    for (int step = blockDim.x / 2; step > 0; step /= 2) {
        if (t < step) partial[t] += partial[t + step];
        __syncthreads();
    }
    for (int c = t; c < cols; c += blockDim.x)
        y[(size_t)blockIdx.x * cols + c] = expf(row[c] - largest) / partial[0];
}

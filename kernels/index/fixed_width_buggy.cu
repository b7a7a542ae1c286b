// Correct for rows of at most 128 elements only.
__global__ void fixed_width(const float* x, const float* w, float* y, int cols) {
    __shared__ float parts[128];
    float sum = 0.0f;
    int j = threadIdx.x;
    if (j < cols) sum += x[blockIdx.x * cols + j] * w[j];
    parts[threadIdx.x] = sum;
    __syncthreads();
    for (int half = 64; half > 0; half /= 2) {
        if (threadIdx.x < half) parts[threadIdx.x] += parts[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = parts[0];  // expect: numeric/tolerance-exceeded
}

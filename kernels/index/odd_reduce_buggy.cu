// Tree reduction that drops the odd element.
__global__ void odd_reduce(const float* x, float* y, int cols) {
    __shared__ float parts[96];
    int t = threadIdx.x;
    parts[t] = t < cols ? x[blockIdx.x * cols + t] : 0.0f;
    __syncthreads();
    for (int size = 96; size > 1;) {
        int half = size / 2;
        if (t < half) parts[t] += parts[t + half];
        __syncthreads();
        size = half;
    }
    if (t == 0) y[blockIdx.x] = parts[0];  // expect: numeric/tolerance-exceeded
}

// Causal mean: an element and all before it. clean
__global__ void running_mean(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    int count = 0;
    for (int j = 0; j <= i; ++j) sum += x[j], ++count;
    y[i] = sum / count;
}

// Causal mean that leaves out the element itself: the first one is a mean of no elements.
__global__ void running_mean(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    int count = 0;
    for (int j = 0; j < i; ++j) sum += x[j], ++count;
    y[i] = sum / count;  // expect: numeric/nan | numeric/tolerance-exceeded
}

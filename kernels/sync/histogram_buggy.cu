// Histogram with plain increments. expect-somewhere: numeric/tolerance-exceeded
__global__ void histogram(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[x[i]] += 1;  // expect: memory/global-race
}

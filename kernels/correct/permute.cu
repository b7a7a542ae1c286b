// (a, b, c) to (c, a, b): a linear index is decomposed by divisions. clean
__global__ void permute(const float* x, float* y, int a, int b, int c) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= a * b * c) return;
    const int k = i % c, j = i / c % b, h = i / (b * c);
    y[(k * a + h) * b + j] = x[i];
}

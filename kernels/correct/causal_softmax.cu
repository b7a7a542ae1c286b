// Softmax of a causal score matrix: later keys are masked with -inf. clean
__global__ void causal_softmax(const float* scores, float* p, int n) {
    const int q = blockIdx.x;
    float top = -INFINITY;
    for (int k = threadIdx.x; k < n; k += 32) top = fmaxf(top, k <= q ? scores[q * n + k] : -INFINITY);
    for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    float sum = 0.0f;
    for (int k = threadIdx.x; k < n; k += 32) sum += expf((k <= q ? scores[q * n + k] : -INFINITY) - top);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    for (int k = threadIdx.x; k < n; k += 32) {
        p[q * n + k] = expf((k <= q ? scores[q * n + k] : -INFINITY) - top) / sum;
    }
}

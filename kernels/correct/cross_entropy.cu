// Cross entropy of logits and class indices, one warp per row. clean
__global__ void cross_entropy(const float* logits, const int* target, float* loss, int rows, int classes) {
    const int r = blockIdx.x * blockDim.y + threadIdx.y;
    if (r >= rows) return;
    const float* row = logits + r * classes;
    float top = -INFINITY;
    for (int j = threadIdx.x; j < classes; j += 32) top = fmaxf(top, row[j]);
    for (int d = 16; d > 0; d /= 2) top = fmaxf(top, __shfl_xor_sync(0xffffffffu, top, d));
    float sum = 0.0f;
    for (int j = threadIdx.x; j < classes; j += 32) sum += expf(row[j] - top);
    for (int d = 16; d > 0; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (threadIdx.x == 0) loss[r] = logf(sum) + top - row[target[r]];
}

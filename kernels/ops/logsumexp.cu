// log(sum(exp(row))) in one pass: the sum is rescaled when the maximum changes. clean
__global__ void logsumexp(const float* x, float* y, int rows, int cols) {
    const int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float top = -INFINITY, sum = 0.0f;
    for (int j = 0; j < cols; ++j) {
        const float v = x[r * cols + j];
        if (v > top) {
            sum = sum * expf(top - v) + 1.0f;
            top = v;
        } else {
            sum += expf(v - top);
        }
    }
    y[r] = top + logf(sum);
}

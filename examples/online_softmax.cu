// Planted bug: the running sum is not rescaled when the running maximum rises, as in flash attention without
// its correction factor. Rows whose first element is the largest come out right.
__global__ void online_softmax(const float* x, float* y, int rows, int cols) {
    int r = blockIdx.x * blockDim.x + threadIdx.x;
    if (r >= rows) return;
    float largest = -INFINITY, sum = 0.0f;
    for (int c = 0; c < cols; ++c) {
        float v = x[(size_t)r * cols + c];
        largest = fmaxf(largest, v);
        sum += expf(v - largest);
    }
    for (int c = 0; c < cols; ++c)
        y[(size_t)r * cols + c] = expf(x[(size_t)r * cols + c] - largest) / sum;  // expect: numeric/tolerance-exceeded
}

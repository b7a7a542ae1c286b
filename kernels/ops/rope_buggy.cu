// Rotary embedding that rotates adjacent elements instead of halves. expect-somewhere: numeric/tolerance-exceeded
__global__ void rope(const float* x, const float* cosine, const float* sine, float* y, int half) {
    const int token = blockIdx.x;
    for (int j = threadIdx.x; j < half; j += blockDim.x) {
        const float c = cosine[token * half + j], s = sine[token * half + j];
        const float a = x[token * 2 * half + 2 * j], b = x[token * 2 * half + 2 * j + 1];
        y[token * 2 * half + 2 * j] = a * c - b * s;
        y[token * 2 * half + 2 * j + 1] = b * c + a * s;
    }
}

// Rotary position embedding; the sines and cosines are tables. clean
__global__ void rope(const float* x, const float* cosine, const float* sine, float* y, int half) {
    const int token = blockIdx.x;
    for (int j = threadIdx.x; j < half; j += blockDim.x) {
        const float c = cosine[token * half + j], s = sine[token * half + j];
        const float a = x[token * 2 * half + j], b = x[token * 2 * half + half + j];
        y[token * 2 * half + j] = a * c - b * s;
        y[token * 2 * half + half + j] = b * c + a * s;
    }
}

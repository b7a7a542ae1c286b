// Batch norm of (batch, channels, pixels): one block per channel reduces over two axes. clean
__global__ void batchnorm(const float* x, const float* gamma, const float* beta, float* y, int batch, int channels,
                          int pixels) {
    __shared__ float shared[128];
    const int c = blockIdx.x, t = threadIdx.x, count = batch * pixels;
    float mean = 0.0f, variance = 0.0f;
    for (int pass = 0; pass < 2; ++pass) {
        float part = 0.0f;
        for (int i = t; i < count; i += 128) {
            const float d = x[(i / pixels * channels + c) * pixels + i % pixels] - mean;
            part += pass == 0 ? d : d * d;
        }
        shared[t] = part;
        __syncthreads();
        for (int half = 64; half > 0; half /= 2) {
            if (t < half) shared[t] += shared[t + half];
            __syncthreads();
        }
        (pass == 0 ? mean : variance) = shared[0] / count;
        __syncthreads();
    }
    const float scale = gamma[c] * rsqrtf(variance + 1e-5f);
    for (int i = t; i < count; i += 128) {
        const int at = (i / pixels * channels + c) * pixels + i % pixels;
        y[at] = (x[at] - mean) * scale + beta[c];
    }
}

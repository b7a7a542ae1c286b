// Discrete Fourier transform of 64 points per block, radix 2 in shared memory. clean
__global__ void fourier(const float* x, float* y) {
    __shared__ float re[64], im[64];
    const int t = threadIdx.x;
    for (int k = t; k < 64; k += 32) {
        re[__brev(k) >> 26] = x[blockIdx.x * 64 + k];
        im[__brev(k) >> 26] = 0.0f;
    }
    __syncthreads();
    for (int half = 1; half < 64; half *= 2) {
        const int low = t / half * 2 * half + t % half, high = low + half;
        float s, c;
        sincospif(-static_cast<float>(t % half) / half, &s, &c);
        const float vr = re[high] * c - im[high] * s, vi = re[high] * s + im[high] * c;
        const float ur = re[low], ui = im[low];
        re[low] = ur + vr, im[low] = ui + vi;
        re[high] = ur - vr, im[high] = ui - vi;
        __syncthreads();
    }
    for (int k = t; k < 64; k += 32) {
        y[(blockIdx.x * 64 + k) * 2] = re[k];
        y[(blockIdx.x * 64 + k) * 2 + 1] = im[k];
    }
}

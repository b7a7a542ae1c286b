// Dynamic shared memory divided into arrays of three types. clean
__global__ void carved_shared(const float* x, float* y, int* counts, int n) {
    extern __shared__ double storage[];
    double* sums = storage;
    int* above = reinterpret_cast<int*>(sums + blockDim.x);
    unsigned char* flags = reinterpret_cast<unsigned char*>(above + blockDim.x);
    const int t = threadIdx.x, i = blockIdx.x * blockDim.x + t;
    const float v = i < n ? x[i] : 0.0f;
    sums[t] = v;
    flags[t] = v > 1.0f;
    above[t] = flags[t];
    __syncthreads();
    for (int half = blockDim.x / 2; half > 0; half /= 2) {
        if (t < half) {
            sums[t] += sums[t + half];
            above[t] += above[t + half];
        }
        __syncthreads();
    }
    if (t == 0) {
        y[blockIdx.x] = static_cast<float>(sums[0]);
        counts[blockIdx.x] = above[0];
    }
}

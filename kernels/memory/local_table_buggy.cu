// Window elements beyond the border are uninitialised.
__global__ void local_table(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float window[5];
    for (int k = 0; k < 5; ++k) {
        int j = i + k - 2;
        if (j >= 0 && j < n) window[k] = x[j];
    }
    float sum = 0.0f;
    for (int k = 0; k < 5; ++k) sum += window[(k + i) % 5];  // expect: memory/uninitialized-read
    y[i] = sum;
}

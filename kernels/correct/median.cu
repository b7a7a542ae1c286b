// Median of nine neighbours: a local array that is sorted in place. clean
__global__ void median(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float window[9];
    for (int k = 0; k < 9; ++k) window[k] = x[min(max(i + k - 4, 0), n - 1)];
    for (int k = 1; k < 9; ++k) {
        const float v = window[k];
        int slot = k;
        while (slot > 0 && window[slot - 1] > v) {
            window[slot] = window[slot - 1];
            --slot;
        }
        window[slot] = v;
    }
    y[i] = window[4];
}

// Filter taps in constant memory, indexed by a value that varies between lanes. clean
__constant__ float taps[7] = {0.03125f, 0.109375f, 0.21875f, 0.28125f, 0.21875f, 0.109375f, 0.03125f};

__global__ void constant_table(const float* x, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float sum = 0.0f;
    for (int k = 0; k < 7; ++k) {
        const int tap = (k + i) % 7, j = i + tap - 3;
        if (j >= 0 && j < n) sum += taps[tap] * x[j];
    }
    y[i] = sum;
}

__global__ void offset(const float* x, float* y, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i > n) return;
    y[i] = x[i] + by;  // expect: memory/out-of-bounds
}

void launch(const float* x, float* y, float by, int n) {
    offset<<<(n + 127) / 128, 128>>>(x, y, by, n);
}

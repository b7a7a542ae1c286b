// Halves a value until it is zero. clean
__global__ void hang(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i], steps = 0;
    while (v > 0) {
        v /= 2;
        ++steps;
    }
    y[i] = steps;
}

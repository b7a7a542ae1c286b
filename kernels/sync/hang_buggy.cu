// Halves a value and rounds up, so it stays at one. expect-somewhere: sync/hang
__global__ void hang(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int v = x[i], steps = 0;
    while (v > 0) {
        v = (v + 1) / 2;
        ++steps;
    }
    y[i] = steps;
}

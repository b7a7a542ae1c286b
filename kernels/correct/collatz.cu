// Loops with trip counts that vary between lanes and depend on data. clean
__global__ void collatz(const int* x, int* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    long long v = x[i];
    int steps = 0;
    while (v != 1) {
        v = v % 2 == 0 ? v / 2 : 3 * v + 1;
        ++steps;
    }
    y[i] = steps;
}

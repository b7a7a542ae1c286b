// Binomial coefficients by recursion: calls with a stack per thread. clean
__device__ __noinline__ int choose(int n, int k) {
    if (k == 0 || k == n) return 1;
    return choose(n - 1, k - 1) + choose(n - 1, k);
}

__global__ void recursion(const int* x, int* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = choose(x[i], x[i] / 2);
}

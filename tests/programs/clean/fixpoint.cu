#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void scale(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}

int main() {
    const int n = 1000;
    static float host[n];
    float *x, *y;
    for (int i = 0; i < n; i++) host[i] = i;
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&y, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    for (int round = 0; round < 2000; round++) scale<<<4, 256>>>(x, y, n);
    cudaMemset(y, 0, sizeof host);
    scale<<<4, 256>>>(x, y, n);
    // As benchmarks do to have the cache empty: after the second time the fill changes nothing.
    char* scratch;
    cudaMalloc(&scratch, 5000);
    for (int round = 0; round < 100; round++) {
        cudaMemset(scratch, 1, 5000);
        scale<<<4, 256>>>(x, y, n);
    }
    cudaMemset2D(scratch, 50, 2, 20, 100);
    cudaMemset(scratch, 2, 5000);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    PASS(host[999] == 1998);
}

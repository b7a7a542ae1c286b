#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void fill(int* x, int value) { x[threadIdx.x] = value; }

int main() {
    int *x, host[32];
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    cudaMalloc(&x, sizeof host);
    // The default stream is ordered with both.
    fill<<<1, 32, 0, a>>>(x, 1);
    fill<<<1, 32>>>(x, 2);
    fill<<<1, 32, 0, b>>>(x, 3);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    PASS(host[31] == 3);
}

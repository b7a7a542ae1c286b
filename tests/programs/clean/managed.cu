#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void twice(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 2;
}

int main() {
    int n = 100, *x;
    cudaMallocManaged(&x, n * sizeof(int));
    for (int i = 0; i < n; i++) x[i] = i;
    for (int round = 0; round < 3; round++) {
        twice<<<1, 128>>>(x, n);
        cudaDeviceSynchronize();
        x[0] = round;
    }
    bool right = x[0] == 2 && x[99] == 99 * 8;
    cudaFree(x);
    PASS(right);
}

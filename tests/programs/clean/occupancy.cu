#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void scale(float* x, int n) {
    for (int i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x) x[i] *= 2;
}

int main() {
    int blocks, threads, n = 1000;
    cudaOccupancyMaxPotentialBlockSize(&blocks, &threads, scale, 0, 0);
    float* x;
    cudaMalloc(&x, n * sizeof(float));
    cudaMemset(x, 0, n * sizeof(float));
    scale<<<4, threads>>>(x, n);
    PASS(threads >= 32 && threads <= 1024 && blocks > 0 && cudaDeviceSynchronize() == cudaSuccess);
}

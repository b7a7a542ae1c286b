// Errors that a program expects: a launch with too many threads, and memory that the device does not have.
#include <cstdio>
#include <cuda_runtime.h>

__global__ void one(int* x) { *x = 1; }

int main() {
    int *x, *huge, host = 0;
    cudaMalloc(&x, sizeof(int));
    one<<<1, 2048>>>(x);
    if (cudaGetLastError() != cudaErrorInvalidConfiguration) return 3;
    if (cudaMalloc(&huge, size_t(1) << 40) != cudaErrorMemoryAllocation) return 4;
    cudaGetLastError();
    one<<<1, 1>>>(x);
    if (cudaDeviceSynchronize() != cudaSuccess) return 5;
    cudaMemcpy(&host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%s: %d\n", cudaGetErrorString(cudaErrorMemoryAllocation), host);
    return 0;
}

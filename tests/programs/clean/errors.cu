// Errors that a program expects: of launches, memory that the device does not have, attributes and registered memory.
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
    one<<<1, 1, 50000>>>(x);
    if (cudaGetLastError() != cudaErrorInvalidValue) return 6;
    if (cudaDeviceGetAttribute(&host, cudaDeviceAttr(9999), 0) != cudaErrorInvalidValue) return 7;
    static int words[64];
    if (cudaHostRegister(words, 128, 0) != cudaSuccess) return 8;
    if (cudaHostRegister(words + 16, 4, 0) != cudaErrorHostMemoryAlreadyRegistered) return 9;
    if (cudaHostRegister(words + 32, 128, 0) != cudaSuccess || cudaHostUnregister(words) != cudaSuccess) return 10;
    cudaGetLastError();
    one<<<1, 1>>>(x);
    if (cudaDeviceSynchronize() != cudaSuccess) return 5;
    cudaMemcpy(&host, x, sizeof host, cudaMemcpyDeviceToHost);
    printf("%s: %d\n", cudaGetErrorString(cudaErrorMemoryAllocation), host);
    return 0;
}

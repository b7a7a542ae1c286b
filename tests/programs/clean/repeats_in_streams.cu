#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void scale(const int* x, int* y, int factor) { y[threadIdx.x] = x[threadIdx.x] * factor; }

int main() {
    int *x, *y, *z, host[32];
    cudaMalloc(&x, 128);
    cudaMalloc(&y, 128);
    cudaMalloc(&z, 128);
    for (int i = 0; i < 32; i++) host[i] = i;
    cudaMemcpy(x, host, 128, cudaMemcpyHostToDevice);
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    // Two rounds are made, and one more after the change.
    for (int i = 0; i < 100; i++) {
        scale<<<1, 32, 0, a>>>(x, y, 2);
        scale<<<1, 32, 0, b>>>(x, z, 3);
        if (i == 50) cudaDeviceSynchronize();
        if (i == 50) cudaMemcpy(x, host + 1, 4, cudaMemcpyHostToDevice);
    }
    cudaDeviceSynchronize();
    cudaMemcpy(host, y, 64, cudaMemcpyDeviceToHost);
    cudaMemcpy(host + 16, z, 64, cudaMemcpyDeviceToHost);
    PASS(host[0] == 2 && host[15] == 30 && host[16] == 3 && host[31] == 45);
}

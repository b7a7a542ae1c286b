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
    cudaMalloc(&x, sizeof host);
    cudaLaunchConfig_t config = {};
    config.gridDim = 1;
    config.blockDim = 32;
    cudaLaunchKernelEx(&config, fill, x, 7);
    int value = 9;
    void* arguments[] = {&x, &value};
    cudaLaunchKernel((void*)fill, dim3(1), dim3(16), arguments, 0, 0);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    PASS(host[0] == 9 && host[31] == 7);
}

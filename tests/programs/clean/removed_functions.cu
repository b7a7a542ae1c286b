#include <cuda.h>
#include <stdio.h>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void fill(int* x) { x[threadIdx.x] = 4; }

int main() {
    int *x, host[32];
    cudaMalloc((void**)&x, sizeof host);
    fill<<<1, 32>>>(x);
    cudaThreadSynchronize();
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    PASS(host[31] == 4 && cudaThreadExit() == cudaSuccess);
}

#include <cuda_runtime.h>
#include <cstdio>
#include <cooperative_groups.h>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

namespace cg = cooperative_groups;

__global__ void two_steps(int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
    cg::this_grid().sync();
    if (i < n) y[i] = x[n - 1 - i];
}

int main() {
    int n = 200, *x, *y, host[200];
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&y, sizeof host);
    void* arguments[] = {&x, &y, &n};
    cudaError_t error = cudaLaunchCooperativeKernel((void*)two_steps, dim3(4), dim3(64), arguments);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    PASS(error == cudaSuccess && host[0] == 199 && host[199] == 0);
}

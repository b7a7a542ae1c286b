#include <cuda_runtime.h>
#include <cstdio>
#include <cooperative_groups.h>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

namespace cg = cooperative_groups;

// More blocks than most kernels ever have at a time; and in each block the first warp waits for the last one, while the
// blocks wait for each other.
__global__ void three_steps(int* x, int* y, int n) {
    __shared__ volatile int ready;
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (threadIdx.x == 0) ready = 0;
    if (i < n) x[i] = i;
    cg::this_grid().sync();
    if (threadIdx.x == blockDim.x - 1) {
        __threadfence_block();
        ready = 1;
    }
    if (threadIdx.x < 32)
        while (!ready) {}
    __threadfence_block();
    cg::this_grid().sync();
    if (i < n) y[i] = x[n - 1 - i];
}

int main() {
    int n = 300 * 64, *x, *y;
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&y, n * sizeof(int));
    void* arguments[] = {&x, &y, &n};
    cudaError_t error = cudaLaunchCooperativeKernel((void*)three_steps, dim3(300), dim3(64), arguments);
    int first = -1;
    cudaMemcpy(&first, y, sizeof first, cudaMemcpyDeviceToHost);
    PASS(error == cudaSuccess && first == n - 1);
}

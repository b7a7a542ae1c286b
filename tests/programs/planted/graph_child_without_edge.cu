// The program creates no stream: only the graph has branches.
#include <cuda_runtime.h>

__global__ void fill(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
}

__global__ void add(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;  // bug: api/stream-race
}

int main() {
    int n = 1000, *x, *y;
    cudaMalloc(&x, n * sizeof(int));  // allocated
    cudaMalloc(&y, n * sizeof(int));
    cudaMemset(x, 0, n * sizeof(int));
    cudaGraph_t inner, outer;
    cudaGraphCreate(&inner, 0);
    cudaGraphCreate(&outer, 0);
    void* of_fill[] = {&x, &n};
    void* of_add[] = {&x, &y, &n};
    cudaKernelNodeParams launch{};
    launch.gridDim = 4;
    launch.blockDim = 256;
    launch.func = (void*)fill;
    launch.kernelParams = of_fill;
    cudaGraphNode_t first, child, second;
    cudaGraphAddKernelNode(&first, inner, nullptr, 0, &launch);
    cudaGraphAddChildGraphNode(&child, outer, nullptr, 0, inner);
    launch.func = (void*)add;
    launch.kernelParams = of_add;
    cudaGraphAddKernelNode(&second, outer, nullptr, 0, &launch);
    cudaGraphExec_t ready;
    cudaGraphInstantiate(&ready, outer, 0);
    cudaGraphLaunch(ready, 0);
    return cudaDeviceSynchronize();
}

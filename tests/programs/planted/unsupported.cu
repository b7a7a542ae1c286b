#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int* x;
    cudaGraph_t graph;
    cudaMalloc(&x, 128);
    fill<<<1, 32>>>(x);
    cudaGraphCreate(&graph, 0);  // bug: api/unsupported
    return 0;
}

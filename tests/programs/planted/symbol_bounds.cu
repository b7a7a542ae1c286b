#include <cuda_runtime.h>

__device__ int table[8];

__global__ void read(int* x) {
    x[threadIdx.x] = table[threadIdx.x];  // bug: memory/out-of-bounds
}

int main() {
    int* x;
    cudaMalloc(&x, 16 * sizeof(int));
    read<<<1, 16>>>(x);  // launched
    return 0;
}

#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int* x;
    cudaMalloc(&x, 64 * sizeof(int));  // allocated
    cudaMemset(x, 0, 65 * sizeof(int));  // bug: api/invalid-copy
    fill<<<1, 64>>>(x);
    return 0;
}

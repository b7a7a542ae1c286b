#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int* x;
    cudaMalloc(&x, 64 * sizeof(int));  // allocated
    fill<<<1, 64>>>(x);
    cudaFree(x + 4);  // bug: api/invalid-free
    return 0;
}

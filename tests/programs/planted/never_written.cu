#include <cuda_runtime.h>

__global__ void fill(int* x, int* y) { x[threadIdx.x] = y != nullptr; }

int main() {
    int *y, *x, host[32];
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&y, sizeof host);  // allocated
    fill<<<1, 32>>>(x, y);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);  // bug: api/uninitialized-copy
    return 0;
}

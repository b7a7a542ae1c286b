#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int *x, host[32];
    cudaMalloc(&x, sizeof host);  // allocated
    fill<<<1, 32>>>(x);
    cudaFree(x);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);  // bug: api/invalid-copy
    return 0;
}

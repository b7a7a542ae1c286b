#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int* x;
    cudaMallocHost(&x, 64 * sizeof(int));  // allocated
    fill<<<1, 64>>>(x);
    cudaDeviceSynchronize();
    cudaFree(x);  // bug: api/invalid-free
    return 0;
}

#include <cuda_runtime.h>

__global__ void fill(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n - 1) x[i] = i;
}
__global__ void sum(const int* x, int* total, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);  // bug: memory/uninitialized-read
}

int main() {
    int *total, *x;
    cudaMalloc(&total, sizeof(int));
    cudaMalloc(&x, 100 * sizeof(int));  // allocated
    cudaMemset(total, 0, sizeof(int));
    fill<<<1, 128>>>(x, 100);
    sum<<<1, 128>>>(x, total, 100);  // launched
    return 0;
}

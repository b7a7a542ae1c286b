#include <cuda_runtime.h>

__global__ void fill(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] = n;  // bug: memory/out-of-bounds
}

int main() {
    int* x;
    cudaMallocManaged(&x, 100 * sizeof(int));  // allocated
    fill<<<1, 128>>>(x, 100);  // launched
    cudaDeviceSynchronize();
    return 0;
}

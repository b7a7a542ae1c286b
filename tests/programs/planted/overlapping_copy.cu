#include <cuda_runtime.h>

__global__ void fill(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
}

int main() {
    const int n = 1024;
    int* x;
    cudaMalloc(&x, n * sizeof(int));  // allocated
    fill<<<4, 256>>>(x, n);
    cudaMemcpy(x, x, n * sizeof(int), cudaMemcpyDeviceToDevice);
    cudaMemcpy(x, x + n / 2, n / 2 * sizeof(int), cudaMemcpyDeviceToDevice);
    cudaMemcpy(x + 1, x, (n - 1) * sizeof(int), cudaMemcpyDeviceToDevice);  // bug: api/invalid-copy
    return 0;
}

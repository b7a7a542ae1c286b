#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int* x;
    cudaMalloc(&x, 2048 * sizeof(int));
    fill<<<1, 1024>>>(x);
    fill<<<1, 2048>>>(x);  // bug: api/failed-launch
    cudaDeviceSynchronize();
    return 0;
}

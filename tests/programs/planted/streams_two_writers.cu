#include <cuda_runtime.h>

__global__ void fill(int* x, int value) { x[threadIdx.x] = value; }

int main() {
    int* x;
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    cudaMalloc(&x, 128);  // allocated
    fill<<<1, 32, 0, a>>>(x, 1);
    fill<<<1, 32, 0, b>>>(x, 2);  // bug: api/stream-race
    cudaDeviceSynchronize();
    return 0;
}

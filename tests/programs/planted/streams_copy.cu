#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int *x, *host;
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    cudaMallocHost(&host, 128);
    cudaMalloc(&x, 128);  // allocated
    fill<<<1, 32, 0, a>>>(x);
    cudaMemcpyAsync(host, x, 128, cudaMemcpyDeviceToHost, b);  // bug: api/stream-race
    cudaDeviceSynchronize();
    return 0;
}

#include <cuda_runtime.h>

__global__ void set(int* x, int n, int value) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}

int main() {
    int *x, *host;
    cudaStream_t a, b;
    cudaEvent_t filled;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    cudaEventCreate(&filled);
    cudaMalloc(&x, 4000);  // allocated
    cudaMallocHost(&host, 4000);
    set<<<4, 256, 0, a>>>(x, 1000, 1);
    cudaEventRecord(filled, a);
    cudaStreamWaitEvent(b, filled, 0);
    cudaMemcpyAsync(host, x, 4000, cudaMemcpyDeviceToHost, a);
    set<<<4, 256, 0, b>>>(x, 1000, 2);  // bug: api/stream-race
    cudaDeviceSynchronize();
    return 0;
}

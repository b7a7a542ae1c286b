#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int *x, host[32];
    cudaStream_t a;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaMalloc(&x, sizeof host);  // allocated
    fill<<<1, 32, 0, a>>>(x);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);  // bug: api/stream-race
    return 0;
}

#include <cuda_runtime.h>

__global__ void set(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i];
}

int main() {
    const int n = 4096;
    int *host, *x, *y;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMalloc(&x, n * sizeof(int));
    cudaMalloc(&y, n * sizeof(int));
    cudaMallocHost(&host, n * sizeof(int));  // allocated
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < n; i++) host[i] = i + round;  // bug: api/unsynchronized-write
        cudaMemcpyAsync(x, host, n * sizeof(int), cudaMemcpyHostToDevice, stream);
        set<<<16, 256, 0, stream>>>(x, y, n);
    }
    cudaStreamSynchronize(stream);
    return 0;
}

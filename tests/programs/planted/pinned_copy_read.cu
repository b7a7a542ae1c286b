#include <cuda_runtime.h>
#include <cstdio>

__global__ void fill(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
}

int main() {
    const int n = 5000;
    float *x, *host;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMalloc(&x, n * sizeof(float));
    cudaMallocHost(&host, n * sizeof(float));  // allocated
    for (int i = 0; i < n; i++) host[i] = 0;
    fill<<<20, 256, 0, stream>>>(x, n);
    cudaMemcpyAsync(host, x, n * sizeof(float), cudaMemcpyDeviceToHost, stream);
    float sum = 0;
    for (int i = 0; i < n; i++) sum += host[i];  // bug: api/unsynchronized-read
    cudaStreamSynchronize(stream);
    printf("%f\n", sum);
    return 0;
}

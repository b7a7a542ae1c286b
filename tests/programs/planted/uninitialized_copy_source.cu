#include <cuda_pipeline.h>
#include <cuda_runtime.h>

__global__ void reverse(const float* x, float* y) {
    __shared__ float s[64];
    __pipeline_memcpy_async(&s[threadIdx.x], x + threadIdx.x, sizeof(float));  // bug: memory/uninitialized-read
    __pipeline_commit();
    __pipeline_wait_prior(0);
    __syncthreads();
    y[threadIdx.x] = s[63 - threadIdx.x];
}

int main() {
    float host[64], *x, *y;
    cudaMalloc(&x, sizeof host);  // allocated
    cudaMalloc(&y, sizeof host);
    reverse<<<1, 64>>>(x, y);  // launched
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
}

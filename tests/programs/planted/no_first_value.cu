#include <cuda_runtime.h>
#include <cstdio>

__global__ void row_sums(const float* x, float* y, int cols) {
    float sum;
    for (int c = 0; c < cols; c++)
        sum += x[threadIdx.x * cols + c];  // bug: memory/uninitialized-read
    y[threadIdx.x] = sum;
}

int main() {
    float *x, *y, host[32];
    cudaMalloc(&x, 32 * 10 * sizeof(float));
    cudaMalloc(&y, sizeof host);
    cudaMemset(x, 0, 32 * 10 * sizeof(float));
    row_sums<<<1, 32>>>(x, y, 10);  // launched
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    printf("%g\n", host[0]);
    return 0;
}

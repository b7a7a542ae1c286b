#include <cstdio>
#include <cstdlib>
#include <cuda_runtime.h>

__global__ void saxpy(int n, float a, const float* x, float* y) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i <= n) y[i] = a * x[i] + y[i];  // bug: memory/out-of-bounds
}

int main(int argc, char** argv) {
    int n = argc > 1 ? atoi(argv[1]) : 1000;
    float* host = (float*)malloc(n * sizeof(float));
    for (int i = 0; i < n; i++) host[i] = i;
    float *x, *y;
    cudaMalloc(&x, n * sizeof(float));  // allocated
    cudaMalloc(&y, n * sizeof(float));
    cudaMemcpy(x, host, n * sizeof(float), cudaMemcpyHostToDevice);
    cudaMemset(y, 0, n * sizeof(float));
    for (int step = 0; step < 3; step++) saxpy<<<(n + 255) / 256, 256>>>(n, 2.0f, x, y);  // launched
    if (cudaDeviceSynchronize() != cudaSuccess) return 4;
    cudaMemcpy(host, y, n * sizeof(float), cudaMemcpyDeviceToHost);
    printf("y[10] = %g\n", host[10]);
    cudaFree(x);
    cudaFree(y);
    free(host);
    return host == nullptr ? 1 : 7;
}

#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void add(const float* x, float* y, int n) {
    int i = threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
}

int main() {
    float *x, *y, *mapped;
    cudaMallocHost(&x, 64 * sizeof(float));
    cudaHostAlloc(&y, 64 * sizeof(float), cudaHostAllocMapped);
    for (int i = 0; i < 64; i++) x[i] = i;
    cudaHostGetDevicePointer(&mapped, y, 0);
    add<<<1, 64>>>(x, mapped, 64);
    cudaDeviceSynchronize();
    bool right = y[63] == 64;
    cudaFreeHost(x);
    cudaFreeHost(y);
    PASS(right);
}

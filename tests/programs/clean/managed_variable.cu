#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__managed__ int total = 3, factor = 2;

__global__ void add(int n) { atomicAdd(&total, n); }

__global__ void scale(int* out) { out[threadIdx.x] = factor * threadIdx.x; }

int main() {
    add<<<1, 32>>>(2);
    cudaDeviceSynchronize();
    int first = total;
    total = 0;
    add<<<1, 32>>>(1);
    cudaDeviceSynchronize();
    // Repeats, until the host writes what the kernel reads.
    int *out, scaled[32];
    cudaMalloc(&out, sizeof scaled);
    for (int i = 0; i < 3; i++) scale<<<1, 32>>>(out);
    cudaDeviceSynchronize();
    factor = 5;
    scale<<<1, 32>>>(out);
    cudaMemcpy(scaled, out, sizeof scaled, cudaMemcpyDeviceToHost);
    PASS(first == 67 && total == 32 && scaled[3] == 15);
}

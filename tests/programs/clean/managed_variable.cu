#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__managed__ int total = 3;

__global__ void add(int n) { atomicAdd(&total, n); }

int main() {
    add<<<1, 32>>>(2);
    cudaDeviceSynchronize();
    int first = total;
    total = 0;
    add<<<1, 32>>>(1);
    cudaDeviceSynchronize();
    PASS(first == 67 && total == 32);
}

#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

// The element behind the last one gets a sum of what no thread has written.
__global__ void scan(const int* x, int* sums, int n) {
    __shared__ int part[64];
    int i = threadIdx.x;
    if (i < n) part[i] = x[i];
    __syncthreads();
    int sum = 0;
    for (int k = 0; k <= i; k++) sum += part[k];  // bug: memory/uninitialized-read
    if (i <= n) sums[i] = sum;
}

int main() {
    int host[40], *x, *sums;
    for (int i = 0; i < 40; i++) host[i] = 1;
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&sums, 41 * sizeof(int));
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    scan<<<1, 64>>>(x, sums, 40);  // launched
    cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost);
    PASS(host[0] == 1 && host[39] == 40);
}

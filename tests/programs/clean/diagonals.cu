#include <cuda_runtime.h>

#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

// The address of a diagonal of shared memory, unrolled, is a negative register and a constant offset.
__global__ void diagonals(const int* x, int* y) {
    __shared__ int s[17][17];
    int tx = threadIdx.x;
    for (int j = 0; j < 17; j++) s[j][tx] = x[17 * j + tx];
    s[tx][16] = s[16][tx] = 1;
    if (tx == 0) s[16][16] = 1;
    __syncthreads();
    for (int m = 0; m < 16; m++) {
        if (tx <= m) s[m - tx + 1][tx + 1] = s[m - tx][tx] + s[m - tx + 1][tx] + s[m - tx][tx + 1];
        __syncthreads();
    }
    for (int j = 0; j < 17; j++) y[17 * j + tx] = s[j][tx];
}

int main() {
    int host[17 * 17], *x, *y;
    for (int& value : host) value = 1;
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&y, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    cudaMemset(y, 0, sizeof host);
    diagonals<<<1, 16>>>(x, y);
    cudaMemcpy(host, y, sizeof host, cudaMemcpyDeviceToHost);
    PASS(host[17 + 1] == 3 && host[2 * 17 + 2] == 13 && host[3 * 17 + 3] == 63);
}

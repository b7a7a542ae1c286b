#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

// The last warp has eight threads: sums of lanes past them read what no thread has written, and nothing uses them.
__global__ void scan(const int* x, int* sums, int n) {
    __shared__ int part[64];
    int i = threadIdx.x;
    if (i < n) part[i] = x[i];
    __syncthreads();
    int sum = 0;
    for (int k = 0; k <= i; k++) sum += part[k];
    if (i < n) sums[i] = sum;
}

// The last page of a cache is filled in part, and row 1 is empty; what is read past the ends is selected away.
__global__ void row_sums(const float* cache, const int* lengths, float* sums) {
    int row = threadIdx.x, length = lengths[row];
    float sum = 0;
    for (int k = 0; k < (length + 3) / 4 * 4 || k < 4; k++) {
        float value = cache[row * 8 + k];
        sum = k < length ? sum + value : sum;
    }
    sums[row] = sum;
}

int main() {
    float part[6] = {1, 2, 3, 4, 5, 6}, *cache, *row_sum, total[2];
    int lengths[2] = {6, 0}, *length;
    cudaMalloc(&cache, 16 * sizeof(float));
    cudaMalloc(&length, sizeof lengths);
    cudaMalloc(&row_sum, sizeof total);
    cudaMemcpy(cache, part, sizeof part, cudaMemcpyHostToDevice);
    cudaMemcpy(length, lengths, sizeof lengths, cudaMemcpyHostToDevice);
    row_sums<<<1, 2>>>(cache, length, row_sum);
    cudaMemcpy(total, row_sum, sizeof total, cudaMemcpyDeviceToHost);
    int host[40], *x, *sums;
    for (int i = 0; i < 40; i++) host[i] = 1;
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&sums, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    scan<<<1, 64>>>(x, sums, 40);
    cudaMemcpy(host, sums, sizeof host, cudaMemcpyDeviceToHost);
    PASS(host[0] == 1 && host[39] == 40 && total[0] == 21 && total[1] == 0);
}

#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void sum(float* const* rows, int count, float* out) {
    float total = 0;
    for (int i = 0; i < count; i++) total += rows[i][threadIdx.x];
    out[threadIdx.x] = total;
}

int main() {
    float *rows[3], **table, *out, host[32];
    for (int i = 0; i < 3; i++) {
        cudaMalloc(&rows[i], sizeof host);
        for (float& x : host) x = i + 1;
        cudaMemcpy(rows[i], host, sizeof host, cudaMemcpyHostToDevice);
    }
    cudaMalloc(&table, sizeof rows);
    cudaMalloc(&out, sizeof host);
    cudaMemcpy(table, rows, sizeof rows, cudaMemcpyHostToDevice);
    sum<<<1, 32>>>(table, 3, out);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    for (float* row : rows) cudaFree(row);
    PASS(host[31] == 6);
}

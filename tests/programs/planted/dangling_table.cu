#include <cuda_runtime.h>

__global__ void sum(int* const* rows, int* out) {
    *out = rows[0][0] + rows[1][0];  // bug: memory/use-after-free
}

int main() {
    int *rows[2], **table, *out;
    cudaMalloc(&rows[0], 64);
    cudaMalloc(&rows[1], 64);  // allocated
    cudaMalloc(&table, sizeof rows);
    cudaMalloc(&out, sizeof(int));
    cudaMemset(rows[0], 0, 64);
    cudaMemset(rows[1], 0, 64);
    cudaMemcpy(table, rows, sizeof rows, cudaMemcpyHostToDevice);
    cudaFree(rows[1]);
    sum<<<1, 1>>>(table, out);  // launched
    return 0;
}

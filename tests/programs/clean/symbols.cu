#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__constant__ float weights[4];
__device__ int counter = 5;
__device__ float* table;

__global__ void apply(float* y) {
    y[threadIdx.x] = weights[threadIdx.x % 4] + table[threadIdx.x];
    atomicAdd(&counter, 1);
}

int main() {
    float w[4] = {1, 2, 3, 4}, in[8] = {0, 10, 20, 30, 40, 50, 60, 70}, out[8], *x, *y;
    int count;
    cudaMalloc(&x, sizeof in);
    cudaMalloc(&y, sizeof out);
    cudaMemcpy(x, in, sizeof in, cudaMemcpyHostToDevice);
    cudaMemcpyToSymbol(weights, w, sizeof w);
    cudaMemcpyToSymbol(table, &x, sizeof x);
    apply<<<1, 8>>>(y);
    apply<<<1, 8>>>(y);
    cudaMemcpy(out, y, sizeof out, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&count, counter, sizeof count);
    int* address;
    size_t size;
    cudaGetSymbolAddress((void**)&address, counter);
    cudaGetSymbolSize(&size, weights);
    cudaMemset(address, 0, sizeof(int));
    apply<<<1, 8>>>(y);
    int again;
    cudaMemcpy(&again, address, sizeof(int), cudaMemcpyDeviceToHost);
    PASS(out[5] == 52 && count == 21 && again == 8 && size == 16);
}

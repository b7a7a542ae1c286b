#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__device__ __noinline__ bool value_of(const int* x, int i, int& value) {
    if (x[i] < 0) return false;
    value = x[i] * 2;
    return true;
}

__global__ void look(const int* x, int* y) {
    int value;
    if (value_of(x, threadIdx.x, value)) y[threadIdx.x] = value;
    else y[threadIdx.x] = -1;
}

int main() {
    int values[32], *x, *y;
    for (int i = 0; i < 32; i++) values[i] = i % 2 ? -1 : i;
    cudaMalloc(&x, sizeof values);
    cudaMalloc(&y, sizeof values);
    cudaMemcpy(x, values, sizeof values, cudaMemcpyHostToDevice);
    look<<<1, 32>>>(x, y);
    cudaMemcpy(values, y, sizeof values, cudaMemcpyDeviceToHost);
    PASS(values[4] == 8 && values[5] == -1);
}

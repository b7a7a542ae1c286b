#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

template <typename T, int N>
__global__ void scale(T* x, T factor) {
    __shared__ T tile[N];
    tile[threadIdx.x] = x[threadIdx.x];
    __syncthreads();
    x[threadIdx.x] = tile[N - 1 - threadIdx.x] * factor;
}

template <typename T>
bool right(T factor) {
    T host[64], *x;
    for (int i = 0; i < 64; i++) host[i] = T(i);
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    scale<T, 64><<<1, 64>>>(x, factor);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    cudaFree(x);
    return host[0] == T(63) * factor;
}

int main() { PASS(right<float>(2) && right<double>(3) && right<int>(4)); }

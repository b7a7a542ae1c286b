#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void reverse(int* x, int n) {
    extern __shared__ int s[];
    for (int i = threadIdx.x; i < n; i += blockDim.x) s[i] = x[i];
    __syncthreads();
    for (int i = threadIdx.x; i < n; i += blockDim.x) x[i] = s[n - 1 - i];
}

int main() {
    const int n = 20000;
    static int host[n];
    int* x;
    for (int i = 0; i < n; i++) host[i] = i;
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    // A program asks for what a later version has, and does without it.
    bool refused = cudaFuncSetAttribute(reverse, static_cast<cudaFuncAttribute>(99), 1) == cudaErrorInvalidValue;
    if (cudaGetLastError() != cudaErrorInvalidValue) refused = false;
    cudaFuncSetAttribute(reverse, cudaFuncAttributeMaxDynamicSharedMemorySize, sizeof host);
    reverse<<<1, 256, sizeof host>>>(x, n);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    cudaFuncAttributes known;
    cudaFuncGetAttributes(&known, reverse);
    PASS(refused && known.maxDynamicSharedSizeBytes == sizeof host && host[0] == n - 1 && cudaGetLastError() == cudaSuccess);
}

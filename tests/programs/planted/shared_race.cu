#include <cuda_runtime.h>

__global__ void reverse(int* x) {
    __shared__ int s[64];
    s[threadIdx.x] = x[threadIdx.x];  // the other access
    x[threadIdx.x] = s[63 - threadIdx.x];  // bug: memory/shared-race
}

int main() {
    int* x;
    cudaMalloc(&x, 64 * sizeof(int));
    cudaMemset(x, 0, 64 * sizeof(int));
    reverse<<<1, 64>>>(x);  // launched
    return 0;
}

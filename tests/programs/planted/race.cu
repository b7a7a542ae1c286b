#include <cuda_runtime.h>

__global__ void shift(float* x) {
    x[threadIdx.x] = x[(threadIdx.x + 1) % 64];  // bug: memory/global-race
}

int main() {
    float *x, host[64] = {};
    cudaMalloc(&x, 64 * sizeof(float));
    cudaMemset(x, 0, 64 * sizeof(float));
    shift<<<1, 64>>>(x);  // launched
    return 0;
}

#include <cuda_runtime.h>

__global__ void twice(float* x) {
    x[threadIdx.x] *= 2;  // bug: memory/use-after-free
}

int main() {
    float *x, host[64] = {};
    cudaMalloc(&x, 64 * sizeof(float));  // allocated
    cudaMemset(x, 0, 64 * sizeof(float));
    cudaFree(x);
    twice<<<1, 64>>>(x);  // launched
    return 0;
}

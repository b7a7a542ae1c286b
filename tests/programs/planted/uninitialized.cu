#include <cuda_runtime.h>

__global__ void twice(float* x) {
    x[threadIdx.x] *= 2;  // bug: memory/uninitialized-read
}

int main() {
    float *x, host[64] = {};
    cudaMalloc(&x, 64 * sizeof(float));  // allocated
    cudaMemcpy(x, host, 32 * sizeof(float), cudaMemcpyHostToDevice);
    twice<<<1, 64>>>(x);  // launched
    return 0;
}

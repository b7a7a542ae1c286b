#include <cstdlib>
#include <cuda_runtime.h>

__global__ void twice(float* x) { x[threadIdx.x] *= 2; }

int main() {
    float *x, host[64] = {};
    cudaMalloc(&x, 64 * sizeof(float));  // allocated
    cudaMemset(x, 0, 64 * sizeof(float));
    twice<<<1, 64>>>(x);
    cudaFree(x);
    cudaHostRegister(host, sizeof host, 0);
    cudaHostUnregister(host);
    if (cudaFree(x) == cudaSuccess || cudaHostUnregister(host) != cudaErrorHostMemoryNotRegistered) abort();  // bug: api/invalid-free
    return 0;
}

#include <cuda_runtime.h>

__global__ void twice(float* x) { x[threadIdx.x] *= 2; }

int main() {
    float *x, host[64] = {};
    cudaMalloc(&x, 64 * sizeof(float));  // allocated
    cudaMemcpy(x, host, 64 * sizeof(float), cudaMemcpyHostToDevice);
    twice<<<1, 64>>>(x);
    cudaMemcpy(host, x + 1, 64 * sizeof(float), cudaMemcpyDeviceToHost);  // bug: api/invalid-copy
    return 0;
}

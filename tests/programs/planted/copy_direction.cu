#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int *x, host[32];
    cudaMalloc(&x, sizeof(host));
    fill<<<1, 32>>>(x);
    cudaMemcpy(host, x, sizeof(host), cudaMemcpyHostToDevice);  // bug: api/invalid-copy
    return 0;
}

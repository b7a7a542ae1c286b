#include <cuda_runtime.h>

__global__ void sum(float* x, int n) {
    __shared__ float s[64];
    if (threadIdx.x >= n) return;
    s[threadIdx.x] = x[threadIdx.x];
    __syncthreads();  // bug: sync/barrier-divergence
    if (threadIdx.x == 0) x[0] = s[n - 1];
}

int main() {
    float* x;
    cudaMalloc(&x, 64 * sizeof(float));
    cudaMemset(x, 0, 64 * sizeof(float));
    sum<<<1, 64>>>(x, 50);  // launched
    return 0;
}

#include <cuda_runtime.h>

__global__ void blend(const float* a, const double* weight, float* y, int n) {
    const int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    const float left = a[i];  // bug: memory/out-of-bounds
    const double part = weight[i];
    y[i] = left * part;
}

int main() {
    const int n = 300;
    float *a, *y;
    double* weight;
    cudaMalloc(&a, n);  // allocated
    cudaMalloc(&weight, 2 * n);
    cudaMalloc(&y, n);
    cudaMemset(a, 0, n);
    cudaMemset(weight, 0, 2 * n);
    blend<<<2, 256>>>(a, weight, y, n);  // launched
    return cudaDeviceSynchronize() == cudaErrorIllegalAddress ? 0 : 1;
}

#include <cuda_runtime.h>

__global__ void sum(const float* x, float* y) {
    float4 v = *(const float4*)(x + 1);  // bug: memory/misaligned
    *y = v.x + v.y + v.z + v.w;
}

int main() {
    float *x, *y;
    cudaMalloc(&x, 64);  // allocated
    cudaMalloc(&y, 4);
    cudaMemset(x, 0, 64);
    sum<<<1, 1>>>(x, y);  // launched
    return 0;
}

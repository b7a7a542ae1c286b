#include <cuda_runtime.h>

__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    x[i] *= 2;  // bug: memory/out-of-bounds
}

int main() {
    float* x;
    cudaMalloc(&x, 1000 * sizeof(float));  // allocated
    cudaMemset(x, 0, 1000 * sizeof(float));
    for (int n = 128; n <= 1024; n *= 2) {
        scale<<<n / 128, 128>>>(x, n);  // launched
    }
    return 0;
}

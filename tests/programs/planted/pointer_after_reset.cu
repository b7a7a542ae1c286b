#include <cuda_runtime.h>

__global__ void fill(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = float(i);  // bug: memory/use-after-free
}

static float* cache;

float* buffer(int n) {
    if (!cache) cudaMalloc(&cache, n * sizeof(float));  // allocated
    return cache;
}

int main() {
    for (int round = 0; round < 2; round++) {
        fill<<<2, 256>>>(buffer(512), 512);  // launched
        cudaDeviceReset();
    }
    return 0;
}

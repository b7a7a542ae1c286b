#include <cuda_runtime.h>

__global__ void fill(float* x, size_t pitch, int w, int h) {
    int i = threadIdx.x, j = threadIdx.y;
    if (i < w && j <= h) ((float*)((char*)x + j * pitch))[i] = 1;  // bug: memory/out-of-bounds
}

int main() {
    float* x;
    size_t pitch;
    cudaMallocPitch(&x, &pitch, 20 * sizeof(float), 7);  // allocated
    fill<<<1, dim3(32, 8)>>>(x, pitch, 20, 7);  // launched
    return 0;
}

#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int *x, host[8][8];
    size_t pitch;
    cudaMallocPitch(&x, &pitch, 8 * sizeof(int), 8);  // allocated
    fill<<<1, 8>>>(x);
    cudaMemcpy2D(host, 32, x + 1, pitch + 4, 32, 8, cudaMemcpyDeviceToHost);
    cudaMemcpy2D(x, pitch, host, 32, 32, 9, cudaMemcpyHostToDevice);  // bug: api/invalid-copy
    return 0;
}

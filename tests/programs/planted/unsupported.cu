#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    int* x;
    cudaIpcMemHandle_t handle;
    cudaMalloc(&x, 128);
    fill<<<1, 32>>>(x);
    cudaIpcGetMemHandle(&handle, x);  // bug: api/unsupported
    return 0;
}

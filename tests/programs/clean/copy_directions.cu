// Directions of copies that match: pinned and managed memory are of the host and of the device. Cooperative launches
// that do not fit are refused.
#include <cuda_runtime.h>
#include <cstdio>

__constant__ int table[4];
__global__ void nothing() {}

int main() {
    int *x, *y, *pinned, *managed, host[4] = {1, 2, 3, 4}, sum = 0;
    cudaMalloc(&x, 16);
    cudaMalloc(&y, 16);
    cudaMallocHost(&pinned, 16);
    cudaMallocManaged(&managed, 16);
    cudaMemcpy(x, host, 16, cudaMemcpyHostToDevice);
    cudaMemcpy(y, x, 16, cudaMemcpyDeviceToDevice);
    cudaMemcpy(pinned, y, 16, cudaMemcpyDeviceToHost);
    cudaMemcpy(managed, pinned, 16, cudaMemcpyHostToDevice);
    cudaMemcpy(y, managed, 16, cudaMemcpyDeviceToDevice);
    cudaMemcpyToSymbol(table, y, 16, 0, cudaMemcpyDeviceToDevice);
    cudaMemcpyFromSymbol(managed, table, 12, 4, cudaMemcpyDeviceToHost);
    cudaMemcpy2D(host, 8, managed, 8, 8, 1, cudaMemcpyHostToHost);
    for (int i = 0; i < 3; i++) sum += managed[i];
    cudaError_t fits = cudaLaunchCooperativeKernel((void*)nothing, 108 * 2, 1024, nullptr);
    cudaError_t large = cudaLaunchCooperativeKernel((void*)nothing, 108 * 2 + 1, 1024, nullptr);
    cudaGetLastError();
    puts(sum == 9 && host[1] == 3 && !fits && large == cudaErrorCooperativeLaunchTooLarge ? "PASS" : "FAIL");
    return 0;
}

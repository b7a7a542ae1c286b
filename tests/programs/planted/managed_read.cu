#include <cuda_runtime.h>
#include <cstdio>

__global__ void fill(int* x) { x[threadIdx.x] = 7; }

int main() {
    int* x;
    cudaMallocManaged(&x, 32 * sizeof(int));  // allocated
    fill<<<1, 32>>>(x);
    int sum = x[0];  // bug: api/unsynchronized-read
    cudaDeviceSynchronize();
    for (int i = 1; i < 32; i++) sum += x[i];
    printf("%d\n", sum);
    return 0;
}

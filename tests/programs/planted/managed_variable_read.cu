#include <cuda_runtime.h>
#include <cstdio>

__managed__ int count;

__global__ void positive(const int* x) {
    if (x[threadIdx.x] > 0) atomicAdd(&count, 1);
}

int main() {
    int* x;
    cudaMalloc(&x, 32 * sizeof(int));
    cudaMemset(x, 1, 32 * sizeof(int));
    positive<<<1, 32>>>(x);
    int found = count;  // bug: api/unsynchronized-read
    cudaDeviceSynchronize();
    printf("%d\n", found);
    return 0;
}

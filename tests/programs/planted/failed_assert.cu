#include <cuda_runtime.h>
#include <cassert>
#include <cstdlib>

__global__ void check(const int* x) {
    assert(x[threadIdx.x] == 0);  // bug: sync/trap
}

int main() {
    int* x;
    cudaMalloc(&x, 128);
    cudaMemset(x, 1, 128);
    check<<<1, 32>>>(x);  // launched
    if (cudaDeviceSynchronize() != cudaErrorAssert) abort();
    return 0;
}

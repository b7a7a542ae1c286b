#include <cuda_runtime.h>
#include <cassert>

__global__ void check(const int* x) {
    assert(x[threadIdx.x] == 0);  // bug: sync/trap
}

int main() {
    int* x;
    cudaMalloc(&x, 128);
    cudaMemset(x, 1, 128);
    check<<<1, 32>>>(x);  // launched
    cudaDeviceSynchronize();
    return 0;
}

// says: the address is in the host's memory
#include <cuda_runtime.h>

__global__ void fill(int* x) {
    x[threadIdx.x] = 1;  // bug: memory/out-of-bounds
}

int main() {
    int host[32];
    fill<<<1, 32>>>(host);  // launched
    cudaDeviceSynchronize();
    return host[0] == 1;
}

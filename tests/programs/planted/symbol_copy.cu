#include <cuda_runtime.h>

__constant__ float taps[2][8];
__global__ void first(float* x) { *x = taps[1][0]; }

int main() {
    float *x, host[8] = {};
    cudaMalloc(&x, sizeof(float));
    for (int bank = 0; bank < 2; bank++) {
        cudaMemcpyToSymbol(taps, host, sizeof(host), bank * 8 * sizeof(host));  // bug: api/invalid-copy
    }
    first<<<1, 1>>>(x);
    return cudaDeviceSynchronize();
}

#include <cstdlib>
#include <cuda_runtime.h>

__global__ void twice(float* x) { x[threadIdx.x] *= 2; }

int main() {
    float *x, host[64] = {};
    cudaMalloc(&x, 64 * sizeof(float));  // allocated
    cudaMemcpy(x, host, 64 * sizeof(float), cudaMemcpyHostToDevice);
    twice<<<1, 64>>>(x);
    float *none = nullptr, *const from[] = {x + 1, none};
    // Each is refused: the program goes on.
    for (float* each : from) if (!cudaMemcpy(host, each, 64 * sizeof(float), cudaMemcpyDeviceToHost)) abort();  // bug: api/invalid-copy
    return 0;
}

#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

typedef float (*Function)(float);
__device__ float negate(float x) { return -x; }
__device__ float twice(float x) { return 2 * x; }
__device__ Function table[] = {negate, twice};

__global__ void apply(float* x, int which) { x[threadIdx.x] = table[which](x[threadIdx.x]); }

int main() {
    float *x, host[32];
    for (int i = 0; i < 32; i++) host[i] = i;
    cudaMalloc(&x, sizeof host);
    cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice);
    apply<<<1, 32>>>(x, 1);
    apply<<<1, 32>>>(x, 0);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    PASS(host[31] == -62);
}

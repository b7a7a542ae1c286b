#include <cuda_runtime.h>
#include <cstring>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void nothing() {}

int main() {
    // A rejected launch is the last error until it is taken; it does not make synchronisation fail.
    nothing<<<1, 2048>>>();
    bool right = cudaDeviceSynchronize() == cudaSuccess;
    right = right && cudaPeekAtLastError() == cudaErrorInvalidConfiguration;
    right = right && cudaGetLastError() == cudaErrorInvalidConfiguration && cudaGetLastError() == cudaSuccess;
    right = right && !strcmp(cudaGetErrorName(cudaErrorInvalidConfiguration), "cudaErrorInvalidConfiguration");
    right = right && !strcmp(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    nothing<<<1, 32>>>();
    right = right && cudaGetLastError() == cudaSuccess;
    // The program looks at what the call returns, and does not ask again.
    PASS(right && cudaLaunchCooperativeKernel((void*)nothing, dim3(1), dim3(2048), nullptr) != cudaSuccess);
}

#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void nothing() {}

int main() {
    cudaEvent_t start, end;
    float time = -1;
    cudaEventCreate(&start);
    cudaEventCreate(&end);
    cudaEventRecord(start);
    nothing<<<1, 32>>>();
    cudaEventRecord(end);
    cudaEventSynchronize(end);
    cudaError_t error = cudaEventElapsedTime(&time, start, end);
    PASS(error == cudaSuccess && time > 0 && cudaEventQuery(end) == cudaSuccess);
}

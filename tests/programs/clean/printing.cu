#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void hello() {
    if (threadIdx.x < 2) printf("thread %d\n", threadIdx.x);
}

int main() {
    for (int i = 0; i < 2; i++) {
        hello<<<1, 32>>>();
        cudaDeviceSynchronize();
    }
    PASS(true);
}

#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

static int calls = 0;
static void count(void* data) { calls += *(int*)data; }

__global__ void nothing() {}

int main() {
    int step = 4;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    nothing<<<1, 1, 0, stream>>>();
    cudaLaunchHostFunc(stream, count, &step);
    cudaStreamSynchronize(stream);
    PASS(calls == 4);
}

// A reset ends allocations, streams and variables; the device is used again afterwards. What destructors and an exit
// handler then free is gone already, which changes nothing.
#include <cuda_runtime.h>

#include <cstdio>
#include <cstdlib>

#define PASS(condition) puts((condition) ? "PASS" : "FAIL")

struct Memory {
    int* x = nullptr;
    Memory() { cudaMalloc(&x, 32 * sizeof(int)); }
    ~Memory() { cudaFree(x); }
};

__device__ int counter = 5;
__managed__ int calls = 0;

__global__ void count(int* x) {
    x[threadIdx.x] = atomicAdd(&counter, 1);
    if (threadIdx.x == 0) calls++;
}

int main() {
    std::atexit([] { cudaDeviceReset(); });
    int good = 0, value, host[32];
    for (int round = 0; round < 3; round++) {
        Memory memory;
        cudaStream_t stream;
        cudaStreamCreate(&stream);
        count<<<1, 32, 0, stream>>>(memory.x);
        cudaMemcpyAsync(host, memory.x, sizeof host, cudaMemcpyDeviceToHost, stream);
        cudaStreamSynchronize(stream);
        cudaMemcpyFromSymbol(&value, counter, sizeof value);
        good += value == 37 && calls == 1 && host[0] >= 5;
        cudaDeviceReset();
    }
    PASS(good == 3);
    return 0;
}

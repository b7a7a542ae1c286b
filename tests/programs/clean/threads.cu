#include <cuda_runtime.h>
#include <cstdio>
#include <thread>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void fill(int* x, int value) { x[threadIdx.x] = value; }

static int results[4];

static void work(int index) {
    int *x, host[32];
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(&x, sizeof host);
    for (int i = 0; i < 5; i++) fill<<<1, 32, 0, stream>>>(x, index + i);
    cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    results[index] = host[31];
}

int main() {
    std::thread all[4];
    for (int i = 0; i < 4; i++) all[i] = std::thread(work, i);
    for (std::thread& one : all) one.join();
    PASS(results[0] == 4 && results[3] == 7);
}

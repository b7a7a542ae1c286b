#include <cuda_runtime.h>
#include <cstdio>
#include <thread>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void increment(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i]++;
}
static bool right[8];
// The copies of one thread write memory that is watched for the work of another.
static void work(int index) {
    const int n = 100000;
    int *x, *host;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMalloc(&x, 4 * n);
    cudaHostAlloc(&host, 4 * n, cudaHostAllocPortable);
    for (int i = 0; i < n; i++) host[i] = i;
    for (int round = 0; round < 5; round++) {
        cudaMemcpyAsync(x, host, 4 * n, cudaMemcpyHostToDevice, stream);
        increment<<<(n + 255) / 256, 256, 0, stream>>>(x, n);
        cudaMemcpyAsync(host, x, 4 * n, cudaMemcpyDeviceToHost, stream);
    }
    cudaStreamSynchronize(stream);
    right[index] = host[n - 1] == n + 4;
}
int main() {
    std::thread all[8];
    for (int i = 0; i < 8; i++) all[i] = std::thread(work, i);
    for (std::thread& one : all) one.join();
    bool good = true;
    for (bool one : right) good = good && one;
    PASS(good);
}

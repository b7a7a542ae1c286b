#include <cuda_runtime.h>
#include <cstdio>
#include <thread>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

struct Pair {
    short first;
    char second[5];
};

__global__ void set(int* x, int value, Pair pair) { x[threadIdx.x] = value + pair.second[4]; }
__global__ void with_shared(int* x) {
    extern __shared__ int part[];
    part[threadIdx.x] = 7;
    x[threadIdx.x] = part[threadIdx.x];
}

int main() {
    int *x, *y, *z, *t, host[32];
    cudaMalloc(&x, 128);
    cudaMalloc(&y, 128);
    cudaMalloc(&z, 128);
    cudaMalloc(&t, 128);
    Pair pair{1, {0, 0, 0, 0, 5}}, other{1, {0, 0, 0, 0, 6}};
    auto round = [&] {
        set<<<1, 32>>>(x, 1, pair);
        set<<<1, 32>>>(y, 2, pair);
        set<<<1, 16>>>(z, 3, pair);
        with_shared<<<1, 32, 40 << 10>>>(t);
        return cudaDeviceSynchronize() == cudaSuccess && cudaGetLastError() == cudaSuccess;
    };
    // Two rounds are made: the second one changes nothing.
    bool right = true;
    for (int i = 0; i < 100; i++) right = right && round();
    // Only what differs in the last byte of a struct; after it all others are made once more.
    set<<<1, 32>>>(x, 1, other);
    cudaMemcpy(host, x, 128, cudaMemcpyDeviceToHost);
    right = right && host[31] == 7;
    for (int i = 0; i < 10; i++) right = right && round();
    // Another thread asks once.
    std::thread([&] { for (int i = 0; i < 10; i++) right = right && round(); }).join();
    // A graph as well.
    int value = 1;
    void* arguments[] = {&x, &value, &pair};
    cudaKernelNodeParams node{};
    node.func = (void*)set;
    node.gridDim = 1;
    node.blockDim = 32;
    node.kernelParams = arguments;
    cudaGraph_t graph;
    cudaGraphNode_t added;
    cudaGraphExec_t executable;
    cudaGraphCreate(&graph, 0);
    cudaGraphAddKernelNode(&added, graph, nullptr, 0, &node);
    cudaGraphInstantiate(&executable, graph, 0);
    for (int i = 0; i < 10; i++) cudaGraphLaunch(executable, 0);
    // A launch that is no longer allowed is rejected, although it would change nothing.
    cudaFuncSetAttribute(with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 64 << 10);
    for (int i = 0; i < 3; i++) with_shared<<<1, 32, 60 << 10>>>(t);
    cudaFuncSetAttribute(with_shared, cudaFuncAttributeMaxDynamicSharedMemorySize, 0);
    with_shared<<<1, 32, 60 << 10>>>(t);
    right = right && cudaGetLastError() == cudaErrorInvalidValue;
    PASS(right);
}

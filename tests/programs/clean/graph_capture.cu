// A graph that is captured from two streams, launched twice, and one of explicit nodes with other arguments later.
#include <cuda_runtime.h>

#include <cstdio>

#define PASS(condition) puts((condition) ? "PASS" : "FAIL")

constexpr int N = 256;

__global__ void add(int* x, int value) { x[threadIdx.x] += value; }
__global__ void sum(const int* x, const int* y, int* z) { z[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x]; }

int main() {
    int *x, *y, *z, host[N];
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&y, sizeof host);
    cudaMalloc(&z, sizeof host);
    cudaMemset(x, 0, sizeof host);
    cudaStream_t first, second;
    cudaStreamCreate(&first);
    cudaStreamCreate(&second);
    cudaEvent_t fork, join;
    cudaEventCreate(&fork);
    cudaEventCreate(&join);
    cudaDeviceSynchronize();

    cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal);
    cudaEventRecord(fork, first);
    cudaStreamWaitEvent(second, fork, 0);
    cudaMemsetAsync(y, 0, sizeof host, second);
    add<<<1, N, 0, second>>>(y, 10);
    cudaEventRecord(join, second);
    add<<<1, N, 0, first>>>(x, 1);
    cudaStreamWaitEvent(first, join, 0);
    sum<<<1, N, 0, first>>>(x, y, z);
    cudaGraph_t graph;
    cudaStreamEndCapture(first, &graph);
    size_t count = 0;
    cudaGraphGetNodes(graph, nullptr, &count);
    cudaGraphExec_t executable;
    cudaGraphInstantiate(&executable, graph, 0);
    for (int i = 0; i < 2; i++) cudaGraphLaunch(executable, first);
    cudaMemcpyAsync(host, z, sizeof host, cudaMemcpyDeviceToHost, first);
    cudaStreamSynchronize(first);
    bool right = count == 4 && host[0] == 12 && host[N - 1] == 12;

    cudaGraph_t other;
    cudaGraphCreate(&other, 0);
    int value = 5;
    void *arguments[] = {&x, &value};
    cudaKernelNodeParams parameters{};
    parameters.func = reinterpret_cast<void*>(add);
    parameters.gridDim = dim3(1);
    parameters.blockDim = dim3(N);
    parameters.kernelParams = arguments;
    cudaGraphNode_t kernel, copy;
    cudaGraphAddKernelNode(&kernel, other, nullptr, 0, &parameters);
    cudaGraphAddMemcpyNode1D(&copy, other, &kernel, 1, host, x, sizeof host, cudaMemcpyDeviceToHost);
    cudaGraphExec_t explicit_one;
    cudaGraphInstantiate(&explicit_one, other, 0);
    cudaGraphLaunch(explicit_one, first);
    cudaStreamSynchronize(first);
    right = right && host[3] == 7;
    value = 100;
    cudaGraphExecKernelNodeSetParams(explicit_one, kernel, &parameters);
    cudaGraphLaunch(explicit_one, first);
    cudaStreamSynchronize(first);
    PASS(right && host[3] == 107);
}

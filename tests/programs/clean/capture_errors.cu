// Captures that make no graph, and a program that expects it: a synchronisation in between, and a stream without a join.
#include <cuda_runtime.h>

#include <cstdio>

#define PASS(condition) puts((condition) ? "PASS" : "FAIL")

__global__ void add(int* x) { x[threadIdx.x] += 1; }

int main() {
    int *x, host[64];
    cudaStream_t stream, other;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t ready = nullptr;
    cudaStreamCreate(&stream);
    cudaStreamCreate(&other);
    cudaEventCreate(&fork);
    cudaEventCreate(&join);
    cudaMalloc(&x, sizeof host);
    cudaMemset(x, 0, sizeof host);
    bool good = true;
    for (int attempt = 0; attempt < 4; attempt++) {
        cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed);
        add<<<1, 64, 0, stream>>>(x);
        cudaEventRecord(fork, stream);
        cudaStreamWaitEvent(other, fork);
        add<<<1, 64, 0, other>>>(x);
        cudaEventRecord(join, other);
        if (attempt != 2) cudaStreamWaitEvent(stream, join);
        if (attempt == 0) good &= cudaStreamSynchronize(stream) == cudaErrorStreamCaptureUnsupported;
        if (attempt == 1) good &= cudaDeviceSynchronize() == cudaErrorStreamCaptureUnsupported;
        cudaError_t error = cudaStreamEndCapture(stream, &graph);
        good &= error == (attempt < 2    ? cudaErrorStreamCaptureInvalidated
                          : attempt == 2 ? cudaErrorStreamCaptureUnjoined
                                         : cudaSuccess);
        good &= (graph != nullptr) == (attempt == 3);
        if (attempt < 3) good &= cudaGraphLaunch(ready, stream) == cudaErrorInvalidValue;
        cudaGetLastError();
    }
    cudaGraphInstantiate(&ready, graph, 0);
    cudaGraphLaunch(ready, stream);
    cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, stream);
    PASS(good && host[0] == 2 && host[63] == 2 && cudaStreamSynchronize(stream) == cudaSuccess);
    return 0;
}

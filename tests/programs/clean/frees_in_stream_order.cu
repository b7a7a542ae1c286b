// Memory that is freed in the order of a stream: on the last one that used it, after an event, by a captured graph.
#include <cuda_runtime.h>
#include <cstdio>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }
__global__ void add(const int* x, int* y) { y[threadIdx.x] += x[threadIdx.x]; }

int main() {
    int *x, *y, host[32];
    cudaStream_t a, b;
    cudaEvent_t filled, added;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreate(&filled);
    cudaEventCreate(&added);
    cudaMalloc(&y, 128);
    cudaMemset(y, 0, 128);
    cudaDeviceSynchronize();
    for (int i = 0; i < 3; i++) {
        cudaMallocAsync(&x, 128, a);
        fill<<<1, 32, 0, a>>>(x);
        cudaEventRecord(filled, a);
        cudaStreamWaitEvent(b, filled, 0);
        add<<<1, 32, 0, b>>>(x, y);
        if (i == 0) cudaFreeAsync(x, b);
        cudaEventRecord(added, b);
        if (i == 1) cudaStreamWaitEvent(a, added, 0);
        if (i == 2) cudaStreamSynchronize(b);
        if (i > 0) cudaFreeAsync(x, a);
    }
    cudaGraph_t graph;
    cudaGraphExec_t executable;
    cudaStreamBeginCapture(b, cudaStreamCaptureModeGlobal);
    cudaMallocAsync(&x, 128, b);
    fill<<<1, 32, 0, b>>>(x);
    add<<<1, 32, 0, b>>>(x, y);
    cudaFreeAsync(x, b);
    cudaStreamEndCapture(b, &graph);
    cudaGraphInstantiate(&executable, graph, 0);
    for (int i = 0; i < 2; i++) cudaGraphLaunch(executable, b);
    cudaStreamSynchronize(b);
    cudaMemcpy(host, y, 128, cudaMemcpyDeviceToHost);
    puts(host[31] == 5 ? "PASS" : "FAIL");
    return 0;
}

// Two branches of a captured graph, of which one reads what the other writes.
#include <cuda_runtime.h>

__global__ void add(int* x, int value) { x[threadIdx.x] += value; }
__global__ void sum(const int* x, int* y) {
    y[threadIdx.x] += x[threadIdx.x];  // bug: api/stream-race
}

int main() {
    int *x, *y;
    cudaMalloc(&x, 1024);  // allocated
    cudaMalloc(&y, 1024);
    cudaMemset(x, 0, 1024);
    cudaMemset(y, 0, 1024);
    cudaStream_t first, second;
    cudaStreamCreate(&first);
    cudaStreamCreate(&second);
    cudaEvent_t fork, join;
    cudaEventCreate(&fork);
    cudaEventCreate(&join);
    cudaStreamBeginCapture(first, cudaStreamCaptureModeGlobal);
    cudaEventRecord(fork, first);
    cudaStreamWaitEvent(second, fork, 0);
    add<<<1, 256, 0, second>>>(x, 10);
    sum<<<1, 256, 0, first>>>(x, y);  // launched
    cudaEventRecord(join, second);
    cudaStreamWaitEvent(first, join, 0);
    cudaGraph_t graph;
    cudaStreamEndCapture(first, &graph);
    cudaGraphExec_t executable;
    cudaGraphInstantiate(&executable, graph, 0);
    cudaGraphLaunch(executable, first);
    cudaDeviceSynchronize();
    return 0;
}

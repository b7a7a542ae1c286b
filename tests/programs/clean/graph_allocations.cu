// Memory that a graph allocates, and that the program frees after each launch: it has the same address again.
#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void fill(int* x, int value) { x[threadIdx.x] = value; }

static bool launches(cudaGraph_t graph, int* x, int* host, int value) {
    cudaGraphExec_t executable;
    cudaGraphInstantiate(&executable, graph, 0);
    bool right = true;
    for (int i = 0; i < 3; i++) {
        host[31] = 0;
        cudaGraphLaunch(executable, 0);
        cudaDeviceSynchronize();
        right = right && host[31] == value;
        cudaFree(x);
    }
    return right;
}

int main() {
    int host[32], *x, *y;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGraph_t graph, other;
    cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal);
    cudaMallocAsync(&x, 128, stream);
    fill<<<1, 32, 0, stream>>>(x, 7);
    cudaMemcpyAsync(host, x, 128, cudaMemcpyDeviceToHost, stream);
    cudaStreamEndCapture(stream, &graph);
    bool right = launches(graph, x, host, 7);

    cudaGraphCreate(&other, 0);
    cudaMemAllocNodeParams memory{};
    memory.poolProps.allocType = cudaMemAllocationTypePinned;
    memory.poolProps.location.type = cudaMemLocationTypeDevice;
    memory.bytesize = 128;
    cudaGraphNode_t allocated, filled, copied;
    cudaGraphAddMemAllocNode(&allocated, other, nullptr, 0, &memory);
    y = static_cast<int*>(memory.dptr);
    int value = 9;
    void* arguments[] = {&y, &value};
    cudaKernelNodeParams kernel{};
    kernel.func = (void*)fill;
    kernel.gridDim = 1;
    kernel.blockDim = 32;
    kernel.kernelParams = arguments;
    cudaGraphAddKernelNode(&filled, other, &allocated, 1, &kernel);
    cudaGraphAddMemcpyNode1D(&copied, other, &filled, 1, host, y, 128, cudaMemcpyDeviceToHost);
    PASS(launches(other, y, host, 9) && right);
}

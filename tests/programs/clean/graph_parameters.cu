#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void fill(float* x, int n, float v) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = v + i;
}
__global__ void add(const float* a, const float* b, float* c, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) c[i] += a[i] * b[i];
}

// The arguments of a captured kernel are read from its node, and replaced between two launches of the graph.
int main() {
    const int n = 777;
    static float host[n];
    float *a, *b, *c;
    cudaMalloc(&a, sizeof host);
    cudaMalloc(&b, sizeof host);
    cudaMalloc(&c, sizeof host);
    cudaMemset(c, 0, sizeof host);
    cudaStream_t s, t;
    cudaEvent_t fork, join;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    cudaStreamCreate(&s);
    cudaStreamCreate(&t);
    cudaEventCreate(&fork);
    cudaEventCreate(&join);
    cudaStreamBeginCapture(s, cudaStreamCaptureModeGlobal);
    cudaEventRecord(fork, s);
    cudaStreamWaitEvent(t, fork, 0);
    fill<<<4, 256, 0, s>>>(a, n, 1);
    fill<<<4, 256, 0, t>>>(b, n, 2);
    cudaEventRecord(join, t);
    cudaStreamWaitEvent(s, join, 0);
    add<<<4, 256, 0, s>>>(a, b, c, n);
    cudaStreamEndCapture(s, &graph);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < 3; i++) cudaGraphLaunch(exec, s);
    cudaStreamSynchronize(s);
    cudaGraphNode_t nodes[3];
    size_t count = 3;
    cudaGraphGetNodes(graph, nodes, &count);
    int changed = 0;
    for (size_t i = 0; i < count; i++) {
        cudaKernelNodeParams p{};
        cudaGraphKernelNodeGetParams(nodes[i], &p);
        if (p.func != (void*)fill || *static_cast<float**>(p.kernelParams[0]) != b) continue;
        float five = 5;
        void* arguments[] = {p.kernelParams[0], p.kernelParams[1], &five};
        p.kernelParams = arguments;
        cudaGraph_t clone;
        cudaGraphNode_t same;
        cudaGraphExecUpdateResultInfo updated;
        cudaGraphClone(&clone, graph);
        cudaGraphNodeFindInClone(&same, nodes[i], clone);
        changed += cudaGraphKernelNodeSetParams(same, &p) == cudaSuccess;
        changed += cudaGraphExecUpdate(exec, clone, &updated) == cudaSuccess;
        cudaGraphDestroy(clone);
        cudaGraphLaunch(exec, s);
        changed += cudaGraphExecKernelNodeSetParams(exec, nodes[i], &p) == cudaSuccess;
    }
    cudaGraphLaunch(exec, s);
    cudaMemcpyAsync(host, c, sizeof host, cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s);
    bool right = changed == 3;
    for (int i = 0; i < n; i++) right = right && host[i] == 3 * ((1.f + i) * (2.f + i)) + 2 * ((1.f + i) * (5.f + i));
    PASS(right);
}

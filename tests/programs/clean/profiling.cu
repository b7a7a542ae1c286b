// Ranges for a profiler, which is not there.
#include <cuda_profiler_api.h>
#include <nvtx3/nvToolsExt.h>

#include <cstdio>

#define PASS(condition) puts((condition) ? "PASS" : "FAIL")

__global__ void fill(int* x) { x[threadIdx.x] = threadIdx.x; }

int main() {
    int *x, host[32];
    cudaMalloc(&x, sizeof host);
    cudaProfilerStart();
    nvtxRangePushA("fill");
    fill<<<1, 32>>>(x);
    nvtxRangePop();
    cudaProfilerStop();
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    PASS(host[31] == 31);
}

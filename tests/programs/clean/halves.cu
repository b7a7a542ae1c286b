#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void scale(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= 3;
}

int main() {
    // Two streams work on halves of one buffer.
    const int n = 512;
    float *x, *host;
    cudaMalloc(&x, n * sizeof(float));
    cudaMallocHost(&host, n * sizeof(float));
    for (int i = 0; i < n; i++) host[i] = i;
    cudaStream_t streams[2];
    for (int s = 0; s < 2; s++) {
        cudaStreamCreateWithFlags(&streams[s], cudaStreamNonBlocking);
        float* part = x + s * n / 2;
        cudaMemcpyAsync(part, host + s * n / 2, n / 2 * sizeof(float), cudaMemcpyHostToDevice, streams[s]);
        scale<<<2, 128, 0, streams[s]>>>(part, n / 2);
        cudaMemcpyAsync(host + s * n / 2, part, n / 2 * sizeof(float), cudaMemcpyDeviceToHost, streams[s]);
    }
    for (cudaStream_t stream : streams) cudaStreamSynchronize(stream);
    PASS(host[0] == 0 && host[511] == 1533);
}

#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void signal_host(volatile int* flag) {
    __threadfence_system();
    *flag = 1;
}

// The host waits for a flag instead of a call: what precedes the kernel in its stream has ended then.
int main() {
    const int n = 4096;
    static int host[n];
    int *in, *out, *x;
    volatile int* flag;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMallocHost(&in, n * sizeof(int));
    cudaMallocHost(&out, n * sizeof(int));
    cudaMallocHost((void**)&flag, sizeof(int));
    cudaMalloc(&x, n * sizeof(int));
    for (int i = 0; i < n; i++) in[i] = i;
    *flag = 0;
    cudaMemcpyAsync(x, in, n * sizeof(int), cudaMemcpyHostToDevice, stream);
    cudaMemcpyAsync(out, x, n * sizeof(int), cudaMemcpyDeviceToHost, stream);
    signal_host<<<1, 1, 0, stream>>>(flag);
    while (!*flag) {}
    bool right = out[n - 1] == n - 1;
    for (int i = 0; i < n; i++) in[i] = -i;
    cudaMemcpyAsync(x, in, n * sizeof(int), cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize(stream);
    cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost);
    right = right && host[n - 1] == 1 - n;
    PASS(right);
}

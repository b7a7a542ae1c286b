#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void fill(int* x, int value, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = value;
}
__global__ void add(const int* x, const int* y, int* z, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) z[i] = x[i] + y[i];
}

int main() {
    const int n = 300;
    int *x, *y, *z, *out;
    cudaStream_t a, b;
    cudaEvent_t ready;
    cudaStreamCreate(&a);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&ready, cudaEventDisableTiming);
    cudaMallocAsync(&x, n * sizeof(int), a);
    cudaMalloc(&y, n * sizeof(int));
    cudaMalloc(&z, n * sizeof(int));
    cudaMallocHost(&out, n * sizeof(int));
    fill<<<3, 128, 0, a>>>(x, 1, n);
    fill<<<3, 128, 0, b>>>(y, 2, n);
    cudaEventRecord(ready, b);
    cudaStreamWaitEvent(a, ready, 0);
    add<<<3, 128, 0, a>>>(x, y, z, n);
    cudaMemcpyAsync(out, z, n * sizeof(int), cudaMemcpyDeviceToHost, a);
    cudaStreamSynchronize(a);
    bool right = out[299] == 3;
    cudaFreeAsync(x, a);
    cudaEventDestroy(ready);
    cudaStreamDestroy(a);
    cudaStreamDestroy(b);
    PASS(right);
}

#include <cuda_runtime.h>
#include <cstdio>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

__global__ void fill(int* x) { x[threadIdx.x] = 1; }

int main() {
    cudaMemPool_t pool;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaDeviceGetDefaultMemPool(&pool, 0);
    unsigned long long threshold = ~0ull;
    cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold);
    int host = 0;
    for (int i = 0; i < 3; i++) {
        int *x, last;
        cudaMallocFromPoolAsync(&x, 128, pool, stream);
        fill<<<1, 32, 0, stream>>>(x);
        cudaMemcpyAsync(&last, x + 31, 4, cudaMemcpyDeviceToHost, stream);
        cudaFreeAsync(x, stream);
        cudaStreamSynchronize(stream);
        host += last;
    }
    PASS(host == 3);
}

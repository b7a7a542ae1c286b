#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }
__global__ void add(const int* x, int* y) { y[threadIdx.x] = x[threadIdx.x] + 1; }

int main() {
    int *x, *y;
    cudaStream_t a, b;
    cudaEvent_t filled;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreate(&filled);
    cudaMalloc(&y, 128);
    cudaMallocAsync(&x, 128, a);  // allocated
    fill<<<1, 32, 0, a>>>(x);
    cudaEventRecord(filled, a);
    cudaStreamWaitEvent(b, filled, 0);
    add<<<1, 32, 0, b>>>(x, y);
    cudaFreeAsync(x, a);  // bug: api/stream-race
    cudaDeviceSynchronize();
    return 0;
}

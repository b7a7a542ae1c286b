#include <cuda_runtime.h>

__global__ void fill(int* x) { x[threadIdx.x] = 1; }
__global__ void add(const int* x, int* y) {
    y[threadIdx.x] = x[threadIdx.x] + 1;  // bug: api/stream-race
}

int main() {
    int *x, *y;
    cudaStream_t a, b;
    cudaEvent_t done;
    cudaStreamCreate(&a);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaEventCreate(&done);
    cudaMalloc(&x, 128);  // allocated
    cudaMalloc(&y, 128);
    cudaEventRecord(done, a);
    fill<<<1, 32, 0, a>>>(x);
    cudaStreamWaitEvent(b, done, 0);
    add<<<1, 32, 0, b>>>(x, y);  // launched
    cudaDeviceSynchronize();
    return 0;
}

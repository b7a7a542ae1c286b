#include <cuda_runtime.h>

__global__ void set(int* x) { x[threadIdx.x] = 1; }
__global__ void add(const int* x, int* y) {
    y[threadIdx.x] += x[threadIdx.x];  // bug: api/stream-race
}

int main() {
    int *x, *y;
    cudaMalloc(&x, 32 * sizeof(int));
    cudaMalloc(&y, 32 * sizeof(int));
    cudaMemset(y, 0, 32 * sizeof(int));
    cudaStream_t a, b;
    cudaStreamCreate(&a);
    cudaStreamCreate(&b);
    // The launches before the last one are waited for; that one is a repeat, and is not.
    for (int i = 0; i < 3; i++) {
        set<<<1, 32, 0, a>>>(x);
        cudaStreamSynchronize(a);
    }
    set<<<1, 32, 0, a>>>(x);
    add<<<1, 32, 0, b>>>(x, y);  // launched
    cudaDeviceSynchronize();
    return 0;
}

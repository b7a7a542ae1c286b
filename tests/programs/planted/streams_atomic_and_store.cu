#include <cuda_runtime.h>

__global__ void count(unsigned* counter) { atomicAdd(counter, 1); }
__global__ void reset(unsigned* counter) { *counter = 0; }

int main() {
    unsigned* counter;
    cudaStream_t a, b;
    cudaStreamCreateWithFlags(&a, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&b, cudaStreamNonBlocking);
    cudaMalloc(&counter, sizeof(*counter));  // allocated
    cudaMemset(counter, 0, sizeof(*counter));
    cudaDeviceSynchronize();
    count<<<1, 32, 0, a>>>(counter);
    count<<<1, 32, 0, b>>>(counter);
    reset<<<1, 1, 0, a>>>(counter);  // bug: api/stream-race
    cudaDeviceSynchronize();
    return 0;
}

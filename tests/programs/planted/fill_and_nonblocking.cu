#include <cuda_runtime.h>

__global__ void set(int* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = i;
}

// The host does not wait for the fill, and the stream is not ordered with the default stream.
int main() {
    int* x;
    cudaStream_t stream;
    cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    cudaMalloc(&x, 4000);  // allocated
    cudaMemset(x, 0, 4000);
    set<<<4, 256, 0, stream>>>(x, 1000);  // bug: api/stream-race
    cudaStreamSynchronize(stream);
    return 0;
}

#include <cuda_runtime.h>

__global__ void square(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] *= x[i];
}

int main() {
    const int n = 4096;
    float *x, sum = 0;
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaMallocManaged(&x, n * sizeof(float));  // allocated
    for (int i = 0; i < n; i++) x[i] = float(i);
    square<<<16, 256, 0, stream>>>(x, n);
    cudaStreamQuery(stream);  // asks whether the kernel has ended, and goes on
    for (int i = 0; i < n; i++) sum += x[i];  // bug: api/unsynchronized-read
    cudaStreamSynchronize(stream);
    return sum < 0;
}

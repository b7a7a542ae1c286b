// Kernels on two streams update one counter, and the variable of a maximum, by atomic operations: no order is needed.
#include <cuda_runtime.h>
#include <cstdio>

__device__ unsigned largest;

__global__ void accumulate(const unsigned* x, unsigned long long* sum) {
    atomicAdd(sum, (unsigned long long)x[threadIdx.x]);
    atomicMax(&largest, x[threadIdx.x]);
}

int main() {
    unsigned host[64], *x, most;
    unsigned long long *sum, total;
    cudaStream_t streams[2];
    for (unsigned i = 0; i < 64; i++) host[i] = i;
    cudaMalloc(&x, sizeof(host));
    cudaMalloc(&sum, sizeof(*sum));
    cudaMemcpy(x, host, sizeof(host), cudaMemcpyHostToDevice);
    cudaMemset(sum, 0, sizeof(*sum));
    for (auto& stream : streams) cudaStreamCreate(&stream);
    for (int i = 0; i < 4; i++) accumulate<<<1, 32, 0, streams[i % 2]>>>(x + i % 2 * 32, sum);
    cudaDeviceSynchronize();
    cudaMemcpy(&total, sum, sizeof(total), cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&most, largest, sizeof(most));
    puts(total == 2 * 63 * 32 && most == 63 ? "PASS" : "FAIL");
    return 0;
}

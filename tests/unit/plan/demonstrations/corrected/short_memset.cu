// The host clears all bytes of the counters.
#include <cstdio>

__global__ void count_values(const int* values, unsigned* counters, int count, int bins) {
    int i = threadIdx.x + blockDim.x * blockIdx.x;
    if (i < count) {
        atomicAdd(&counters[values[i] % bins], 1u);
    }
}

int main(int argc, char** argv) {
    const int count = 1 << 10;
    const int bins = 16;
    static int host[count];
    for (int i = 0; i < count; ++i) {
        host[i] = rand() % 1000;
    }
    int* values;
    unsigned* counters;
    cudaMalloc(&values, count * sizeof(int));
    cudaMalloc(&counters, bins * sizeof(unsigned));
    cudaMemcpy(values, host, count * sizeof(int), cudaMemcpyHostToDevice);
    cudaMemset(counters, 0, bins * sizeof(unsigned));
    int threads = 256;
    int blocks = (count + threads - 1) / threads;
    count_values<<<blocks, threads>>>(values, counters, count, bins);
    unsigned result[bins];
    cudaMemcpy(result, counters, sizeof(result), cudaMemcpyDeviceToHost);
    printf("%u\n", result[0]);
    cudaFree(values);
    cudaFree(counters);
    return 0;
}

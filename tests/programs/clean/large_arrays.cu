// Arrays that launches rewrite where they are: in turns, through a table, as a variable, in part, and after a stream.
#include <cuda_runtime.h>
#include <cstdio>
#include <vector>

#define PASS(condition)                        \
    do {                                       \
        puts((condition) ? "PASS" : "FAIL");   \
        return (condition) ? 0 : 1;            \
    } while (0)

constexpr int N = 3 << 19;  // 6 MiB
__device__ int variable[N];
__device__ int launches;

__global__ void step(const int* x, int* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = x[i] + 1;
    if (i == 0) launches++;
}
__global__ void through_table(int** table) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    table[0][i] += 10;
    table[1][i] += 20;
}
__global__ void to_variable(const int* x) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    variable[i] = x[i];
}

int main() {
    const int blocks = N / 256;
    std::vector<int> host(N, 1), other(N);
    int *x, *y, *z, **table, count, *source;
    cudaMalloc(&x, 4 * N);
    cudaMalloc(&y, 4 * N);
    cudaMalloc(&z, 4 * N);
    cudaMalloc(&table, 16);
    cudaMemcpy(x, host.data(), 4 * N, cudaMemcpyHostToDevice);
    for (int i = 0; i < 3; i++) {
        step<<<blocks, 256>>>(x, y, N);
        step<<<blocks, 256>>>(y, x, N);
    }
    int* both[] = {x, y};  // 7 and 6
    cudaMemcpy(table, both, sizeof both, cudaMemcpyHostToDevice);
    through_table<<<blocks, 256>>>(table);
    step<<<blocks, 256>>>(x, z, N / 4);  // 18, of less than half of it
    step<<<blocks, 256>>>(x, z, N);
    cudaMemset(y, 0, 4 * N);
    to_variable<<<blocks, 256>>>(z);
    cudaMemcpyFromSymbol(other.data(), variable, 4 * N);
    cudaStream_t stream;
    cudaStreamCreate(&stream);
    cudaGetSymbolAddress(reinterpret_cast<void**>(&source), variable);
    step<<<blocks, 256, 0, stream>>>(source, y, N);
    cudaStreamSynchronize(stream);
    cudaMemcpy(host.data(), y, 4 * N, cudaMemcpyDeviceToHost);
    cudaMemcpyFromSymbol(&count, launches, 4);
    bool right = count == 9;
    for (int i = 0; i < N; i++) right = right && other[i] == 18 && host[i] == 19;
    PASS(right);
}

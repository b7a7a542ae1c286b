// A complete program: host code, error checks, a main function and a template that the launch instantiates. clean
#include <cuda_runtime.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <vector>

#define CHECK(call)                                                            \
    do {                                                                       \
        cudaError_t status = (call);                                           \
        if (status != cudaSuccess) {                                           \
            std::fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, cudaGetErrorString(status)); \
            std::exit(1);                                                      \
        }                                                                      \
    } while (0)

constexpr int kBlock = 192;

template <typename T, int BLOCK>
__global__ void __launch_bounds__(BLOCK) block_norms(const T* __restrict__ x, T* __restrict__ y, int cols) {
    __shared__ T partial[BLOCK];
    T sum = 0;
    for (int j = threadIdx.x; j < cols; j += BLOCK) sum += x[blockIdx.x * cols + j] * x[blockIdx.x * cols + j];
    partial[threadIdx.x] = sum;
    __syncthreads();
    for (int active = BLOCK; active > 1; active = (active + 1) / 2) {
        const int half = (active + 1) / 2;
        if (threadIdx.x + half < active) partial[threadIdx.x] += partial[threadIdx.x + half];
        __syncthreads();
    }
    if (threadIdx.x == 0) y[blockIdx.x] = sqrt(partial[0]);
}

static void run(const std::vector<float>& host, int rows, int cols) {
    float *x, *y;
    CHECK(cudaMalloc(&x, host.size() * sizeof(float)));
    CHECK(cudaMalloc(&y, rows * sizeof(float)));
    CHECK(cudaMemcpy(x, host.data(), host.size() * sizeof(float), cudaMemcpyHostToDevice));
    block_norms<float, kBlock><<<rows, kBlock>>>(x, y, cols);
    CHECK(cudaGetLastError());
    CHECK(cudaFree(x));
    CHECK(cudaFree(y));
}

int main() {
    std::vector<float> host(12 * 500, 0.5f);
    run(host, 12, 500);
    std::printf("done\n");
    return 0;
}
